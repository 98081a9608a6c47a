//! A program that is built with `panic = "abort"`: the house does not open. The workspace's own crates are built again for
//! it, which takes about a minute; what they depend on is shared.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Stands before the compiler for the workspace's crates. The compiler itself loads macros and cannot abort.
const WRAPPER: &str = r#"#!/bin/sh
case " $* " in
*" proc-macro "*) exec "$@" ;;
*) exec "$@" -C panic=abort ;;
esac
"#;

#[test]
#[ignore = "builds the workspace again: a step of `cargo xtask ci`"]
fn f25_a_program_that_aborts_is_refused_when_a_house_opens() {
    // Always the same place: cargo builds again what another wrapper has built.
    let wrapper = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rustc-that-aborts");
    std::fs::write(&wrapper, WRAPPER).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Whoever builds the examples next gets this one as it should be.
    let refused = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--locked", "--example", "hello"])
        .env("RUSTC_WORKSPACE_WRAPPER", &wrapper)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("panic = \"abort\"") && said.contains("Cargo.toml"), "{said}");
    assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(1), [].as_slice()), "{said}");
}
