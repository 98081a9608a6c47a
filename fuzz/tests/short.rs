//! Every target with its seeds, and with inputs made of them by chance. `PLAYHOUSE_SEED=<seed>` plays one input again,
//! `PLAYHOUSE_RUNS` sets how many are played.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use playhouse_fuzz::{TARGETS, Target};

fn target(name: &str) -> Target {
    TARGETS.into_iter().find(|target| target.name == name).unwrap()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Plays the seeds, then as many inputs, each known by its number.
fn holds(name: &str, runs: u64) {
    let target = target(name);
    target.seeds.iter().for_each(|seed| (target.run)(seed));
    if let Some(seed) = number("PLAYHOUSE_SEED") {
        return (target.run)(&input(target, seed));
    }
    for seed in 0..number("PLAYHOUSE_RUNS").unwrap_or(runs) {
        let input = input(target, seed);
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
            panic!("`{name}` does not hold for {input:?}: play it again with PLAYHOUSE_SEED={seed}");
        }
    }
}

/// A seed of the target that is changed in a few places, or joined with another.
fn input(target: Target, seed: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed);
    let mut bytes = target.seeds[rng.usize(..target.seeds.len())].to_vec();
    for _ in 0..rng.usize(1..12) {
        let at = rng.usize(..=bytes.len());
        match rng.u8(..6) {
            0 => bytes.insert(at, rng.u8(..)),
            1 => bytes.insert(at, rng.u8(..32)),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
            4 => bytes.truncate(at),
            _ => bytes.extend_from_slice(target.seeds[rng.usize(..target.seeds.len())]),
        }
    }
    bytes
}

#[test]
fn arguments_of_any_form_are_judged_and_what_is_said_of_them_is_bounded() {
    holds("arguments", 20_000);
}

#[test]
fn f46_a_command_line_of_any_bytes_is_read_and_what_is_plain_reads_the_same_again() {
    holds("commands", 5_000);
}

#[test]
fn f17_output_of_any_bytes_in_any_pieces_is_cut_between_characters() {
    holds("output", 200_000);
}

#[test]
fn f47_no_path_and_no_link_leads_a_file_tool_out_of_its_folder() {
    holds("paths", 400);
}

#[test]
fn every_file_of_a_target_is_in_the_table() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/targets");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<String> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    files.sort();
    assert_eq!(files, TARGETS.map(|target| target.name));
}
