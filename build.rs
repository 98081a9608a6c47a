//! Strips the program in a release: a package that has an optimisation level of its own misses the profile's `strip`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
