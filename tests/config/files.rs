//! Which files are read, and what happens to one that cannot be.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::support::{Place, write};

#[test]
fn files_that_are_not_there_are_no_error_unless_they_were_named() {
    let mut place = Place::new();
    assert_eq!(place.run(&["config", "show"]).code, Some(0));
    let missing = place.work().join("missing.toml").display().to_string();
    let refusal = format!("{missing} cannot be read: No such file or directory (os error 2)");
    place.run(&["config", "show", "--config", "missing.toml"]).refused(&[&refusal]);
    place.run(&["sessions", "list", "--config", "missing.toml"]).refused(&[&refusal]);
    place.run(&["resume", "--config", "missing.toml"]).refused(&[&refusal]);
    place.run(&["run", "hi", "--config", "missing.toml"]).refused(&[&refusal]);
    place.set("PLAYHOUSE_CONFIG", "missing.toml");
    place.run(&["config", "show"]).refused(&[&refusal]);
    place.set("PLAYHOUSE_CONFIG", "");
    assert_eq!(place.run(&["config", "show"]).code, Some(0), "empty is unset");
    for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        place.unset(name);
    }
    let shown = place.run(&["config", "show", "--origin"]);
    assert!(shown.said().contains("# data_dir is not set: the platform's data directory\n"), "{shown:?}");
    place
        .run(&["sessions", "list"])
        .refused(&["there is no HOME to keep sessions under: give --data-dir or set PLAYHOUSE_HOME"]);
}

#[test]
fn the_users_file_is_the_flags_else_the_variables_else_the_platforms() {
    let mut place = Place::new();
    let system = |place: &Place, flags: &[&str]| place.shown(flags)["system"].clone();
    let by_user = |text: &str, path| json!({"value": text, "origin": "user", "path": path, "line": 1});
    write(&place.home().join(".config/playhouse/config.toml"), "system = 'dot config'");
    place.user("system = 'xdg'");
    write(&place.work().join("v.toml"), "system = 'variable'");
    write(&place.work().join("f.toml"), "system = 'flag'");
    assert_eq!(system(&place, &[]), by_user("xdg", place.user_file()));
    place.set("PLAYHOUSE_CONFIG", "v.toml");
    assert_eq!(system(&place, &[]), by_user("variable", place.work().join("v.toml")));
    let flag = ["--config", "f.toml"];
    assert_eq!(system(&place, &flag), by_user("flag", place.work().join("f.toml")));
    place.unset("PLAYHOUSE_CONFIG");
    place.unset("XDG_CONFIG_HOME");
    if cfg!(target_os = "linux") {
        let path = place.home().join(".config/playhouse/config.toml");
        assert_eq!(system(&place, &[]), by_user("dot config", path));
    }
    place.set("PLAYHOUSE_CONFIG", "/dev/null");
    assert_eq!(system(&place, &[]), json!({"value": null, "origin": "default"}));
}

#[test]
fn the_projects_file_is_the_nearest_above_the_working_directory() {
    let mut place = Place::new();
    let deep = place.home().join("a/b/c");
    std::fs::create_dir_all(&deep).unwrap();
    let system = |place: &Place, args: &[&str]| {
        let done = place.run_in(&deep, &[&["config", "show", "--json"], args].concat());
        let rows = done.lines();
        let row = rows.iter().find(|row| row["key"] == "system").unwrap();
        (row["value"].as_str().unwrap_or_default().to_owned(), row["path"].clone())
    };
    let at = |name: &str| place.home().join(name).join("playhouse.toml");
    write(&at(""), "system = 'home'");
    assert_eq!(system(&place, &[]), ("home".into(), json!(at(""))));
    write(&at("a"), "system = 'a'");
    assert_eq!(system(&place, &[]), ("a".into(), json!(at("a"))));
    write(&at("a/b/c"), "");
    assert_eq!(system(&place, &[]), (String::new(), json!(null)), "the nearest, even if it says nothing");
    std::fs::remove_file(at("a/b/c")).unwrap();
    assert_eq!(system(&place, &["--cwd", ".."]), ("a".into(), json!(at("a"))));
    let elsewhere = place.work();
    assert_eq!(system(&place, &["--cwd", elsewhere.to_str().unwrap()]), (String::new(), json!(null)));
    // Above the home directory nobody looks.
    place.set("HOME", place.home().join("a/b"));
    assert_eq!(system(&place, &[]), (String::new(), json!(null)));
}

#[test]
fn what_stands_in_a_files_place_is_named() {
    for is_project in [false, true] {
        let place = Place::new();
        let path = if is_project { place.project_file() } else { place.user_file() };
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let refused = |reason: &str| {
            place.run(&["config", "show"]).refused(&[&format!("{} cannot be read: {reason}", path.display())]);
        };
        std::fs::create_dir(&path).unwrap();
        refused("it is a directory; a file is expected");
        std::fs::remove_dir(&path).unwrap();
        symlink(&path, &path).unwrap();
        refused("Too many levels of symbolic links (os error 40)");
        std::fs::remove_file(&path).unwrap();
        symlink("nowhere", &path).unwrap();
        refused("No such file or directory (os error 2)");
        std::fs::remove_file(&path).unwrap();
        // Not even root can read this.
        symlink("/proc/self/mem", &path).unwrap();
        refused("Input/output error (os error 5)");
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        refused("it is no regular file");
        std::fs::remove_file(&path).unwrap();
        write(&path, vec![b'#'; 256 * 1024 + 1]);
        refused("it has more than 256 KiB; make it shorter");
        write(&path, vec![b'#'; 256 * 1024]);
        place.run(&["config", "show"]).said();
        write(&path, b"# \xc3\xa9\nsystem = '\xc3\xa9\xff'\n");
        let problem = format!("{}:2:12: this is not UTF-8 text: save the file as UTF-8", path.display());
        place.run(&["config", "show"]).refused(&[&problem]);
    }
}

#[test]
fn odd_files_are_read() {
    let place = Place::new();
    let system = || place.shown(&[])["system"].clone();
    let at =
        |line: usize, text: &str| json!({"value": text, "origin": "user", "path": place.user_file(), "line": line});
    place.user("");
    assert_eq!(system(), json!({"value": null, "origin": "default"}));
    place.user("\n# nothing\n");
    assert_eq!(system(), json!({"value": null, "origin": "default"}));
    place.user("\u{feff}system = 'mark'");
    assert_eq!(system(), at(1, "mark"));
    place.user("# one\r\n\r\nsystem = 'returns'\r\n");
    assert_eq!(system(), at(3, "returns"));
    place.user("system = '''\nmany\nlines'''");
    assert_eq!(system(), at(1, "many\nlines"));
    let long = "é🎭".repeat(30_000);
    place.user(format!("system = '{long}'"));
    assert_eq!(system(), at(1, &long));
    place.user("openai.base_url = 'http://a/v1'\nlimits = { max_turns = 4 }");
    assert_eq!(place.shown(&[])["limits.max_turns"]["value"], 4);
    assert_eq!(place.shown(&[])["openai.base_url"]["value"], "http://a/v1");
}

#[test]
fn a_file_that_is_named_is_the_users_even_if_it_is_the_projects() {
    let mut place = Place::new();
    place.project("durability = 'os'");
    assert_eq!(place.run(&["config", "show"]).code, Some(2));
    let shown = place.shown(&["--config", "playhouse.toml"]);
    let path = place.work().join("playhouse.toml");
    assert_eq!(shown["durability"], json!({"value": "os", "origin": "user", "path": path, "line": 1}));
    symlink(place.project_file(), place.work().join("link.toml")).unwrap();
    place.set("PLAYHOUSE_CONFIG", "link.toml");
    assert_eq!(place.shown(&[])["durability"]["value"], "os");
}
