//! The targets for libFuzzer, which brings `main` and its own flags. `cargo xtask fuzz` sets two environment variables:
//! `FUZZ_TARGET` names the target, `FUZZ_SEEDS` the folder for the inputs to begin with.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use playhouse_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is `{name}`; the targets are {:?}", TARGETS.map(|target| target.name)))
});

fn write_seeds() {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS") else { return };
    for (nth, seed) in TARGET.seeds.iter().enumerate() {
        let file = Path::new(&folder).join(format!("seed-{nth}"));
        std::fs::write(&file, seed).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

fuzz_target!(init: write_seeds(), |input: &[u8]| (TARGET.run)(input));
