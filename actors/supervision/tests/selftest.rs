//! The start-up check, built both ways by the real compiler.

use std::path::Path;
use std::process::{Command, Output};

fn build_and_run(panic: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("main.rs"), dir.path().join("program"));
    let selftest = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/selftest.rs");
    std::fs::write(
        &source,
        format!(
            "#[path = {selftest:?}] mod selftest;
             fn main() {{ if let Err(refused) = selftest::unwinding() {{ eprintln!(\"{{refused}}\"); std::process::exit(2) }} }}"
        ),
    )
    .unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "bin", "-C", &format!("panic={panic}"), "-o"])
        .args([&program, &source])
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Command::new(program).output().unwrap()
}

#[test]
fn f25_a_build_with_panic_abort_is_refused_at_start_and_told_what_to_change() {
    let refused = build_and_run("abort");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("panic = \"abort\"") && said.contains("Cargo.toml"), "{said}");
    assert_eq!(said.lines().count(), 1, "one clear line");
}

#[test]
fn f25_a_build_that_unwinds_passes() {
    assert_eq!(build_and_run("unwind").status.code(), Some(0));
    assert_eq!(playhouse_supervision::unwinding(), Ok(()));
}
