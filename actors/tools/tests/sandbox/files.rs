//! What is written and read of the file system.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use playhouse_protocol::{SandboxMode, ToolError};
use playhouse_tools::SandboxRules;
use serde_json::json;

use crate::common::{Bench, eventually};
use crate::{TIERS, bash, plain, sandbox, tier_of_this_test, workdir};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f47_nothing_is_written_outside_of_the_working_directory() {
    for mode in TIERS {
        let (workdir, outside) = (workdir(), workdir());
        fs::write(outside.path().join("kept"), "kept").unwrap();
        std::os::unix::fs::symlink(outside.path(), workdir.path().join("link")).unwrap();
        let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
        let out = outside.path().display();
        for attack in [
            format!("echo x > {out}/new"),
            format!("echo x >> {out}/kept"),
            format!("truncate -s 0 {out}/kept"),
            format!("rm {out}/kept"),
            format!("mv {out}/kept ."),
            format!("ln {out}/kept hard && echo x > hard"),
            format!("mkdir {out}/folder"),
            format!("chmod 777 {out}/kept && echo x > {out}/kept"),
            "echo x > link/new".to_owned(),
            "echo x > link/kept".to_owned(),
            "cd link && echo x > kept".to_owned(),
            "echo x > /etc/playhouse-was-here".to_owned(),
            "echo x > ~/playhouse-was-here".to_owned(),
            "mknod disk b 8 0 && cat disk".to_owned(),
        ] {
            let (said, code) = bash(&mut bench, &attack).await;
            assert_ne!(code, Some(0), "{mode:?}: {attack}: {said}");
        }
        let names: Vec<_> = fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["kept"]);
        assert_eq!(fs::read_to_string(outside.path().join("kept")).unwrap(), "kept");
        assert!(!Path::new("/etc/playhouse-was-here").exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f47_a_folder_that_is_swapped_for_a_link_while_it_is_written_to_leads_nowhere() {
    for mode in TIERS {
        let (workdir, outside) = (workdir(), workdir());
        let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
        let race = format!(
            "mkdir real; (for i in $(seq 300); do mv -T real tmp 2>/dev/null; ln -sfn {out} real; rm -f real; \
             mv -T tmp real; done) & for i in $(seq 2000); do echo x > real/f$i; done 2>/dev/null; wait; echo over",
            out = outside.path().display()
        );
        let (said, _) = bash(&mut bench, &race).await;
        assert!(said.contains("over"), "{said}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_and_the_houses_own_files_are_not_read() {
    let home = workdir();
    for name in [".ssh", "projects/mine", ".rustup", ".config/playhouse"] {
        fs::create_dir_all(home.path().join(name)).unwrap();
    }
    for name in [".ssh/id", ".netrc", "projects/other", ".config/playhouse/config.toml"] {
        fs::write(home.path().join(name), "sekret-canary").unwrap();
    }
    fs::write(home.path().join(".rustup/tool"), "toolchain").unwrap();
    for tier in ["landlock", "bwrap"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["files::reads_what_a_home_has", "--exact", "--ignored", "--nocapture"]).stderr(Stdio::null());
        let out = command.env("HOME", home.path()).env("TEST_TIER", tier).output().unwrap();
        let out = String::from_utf8(out.stdout).unwrap();
        assert!(out.contains("toolchain") && out.contains("attacked"), "{tier}: {out}");
        assert!(!out.contains("sekret-canary"), "{tier}: {out}");
        assert!(!out.contains("root:$") && !out.contains("root:*:"), "{tier}: {out}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the test above, with a home of its own"]
async fn reads_what_a_home_has() {
    let home = std::path::PathBuf::from(std::env::var_os("HOME").unwrap());
    let mut bench = Bench::confined(&home.join("projects/mine"), plain(tier_of_this_test())).await;
    let attack = "cat ~/.rustup/tool; cat ~/.ssh/id ~/.netrc ../other ~/.config/playhouse/config.toml; \
                  cp ~/.ssh/id . && cat id; ln ~/.ssh/id hard && cat hard; tar c ~/.ssh | cat; \
                  python3 -c 'print(open(\"'$HOME'/.netrc\").read())'; cat /etc/shadow; echo attacked";
    println!("{}", bash(&mut bench, attack).await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f49_the_users_rules_are_out_of_reach_wherever_tools_work() {
    for tier in ["off", "landlock", "bwrap"] {
        let home = workdir();
        fs::create_dir_all(home.path().join(".config/playhouse")).unwrap();
        fs::create_dir_all(home.path().join("project")).unwrap();
        fs::write(home.path().join(".config/playhouse/config.toml"), "permission = \"ask\"\n").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["files::edits_the_rules", "--exact", "--ignored", "--nocapture"]);
        let out = command.env("HOME", home.path()).env("TEST_TIER", tier).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{tier}: {said}");
        let left = fs::read_to_string(home.path().join(".config/playhouse/config.toml")).unwrap();
        assert_eq!(left, "permission = \"ask\"\n", "{tier}");
        assert_eq!(fs::read_dir(home.path().join(".config/playhouse")).unwrap().count(), 1, "{tier}");
        assert!(home.path().join("project/made").exists(), "{tier}: what is around it can be used: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is run by the test above, with a home of its own"]
async fn edits_the_rules() {
    let home = std::path::PathBuf::from(std::env::var_os("HOME").unwrap());
    let tier = tier_of_this_test();
    // The worst case: the working directory holds them.
    let mut bench = Bench::confined(&home, plain(tier)).await;
    let path = ".config/playhouse/config.toml";
    let yolo = "permission = \"yolo\"\n";
    fs::create_dir(home.join("links")).unwrap();
    std::os::unix::fs::symlink("../.config/playhouse", home.join("links/rules")).unwrap();
    for (tool, args) in [
        ("write_file", json!({"path": path, "content": yolo})),
        ("write_file", json!({"path": ".config/playhouse/other.toml", "content": yolo})),
        ("write_file", json!({"path": "links/rules/config.toml", "content": yolo})),
        ("edit_file", json!({"path": path, "edits": [{"old_text": "ask", "new_text": "yolo"}]})),
        ("read_file", json!({"path": path})),
        ("list_files", json!({"path": ".config/playhouse"})),
        ("search", json!({"pattern": "permission", "path": ".config/playhouse"})),
    ] {
        let answer = bench.run(tool, args.clone()).await;
        let Err(ToolError::Failed(reason)) = &answer else { panic!("{tool} {args}: {answer:?}") };
        assert!(reason.contains("is kept from tools"), "{tool} {args}: {reason}");
    }
    let made = bench.run("write_file", json!({"path": "project/made", "content": "x"})).await;
    assert!(made.is_ok(), "{made:?}");
    if tier != SandboxMode::Off {
        for attack in [
            format!("echo '{yolo}' > {path}"),
            format!("sed -i s/ask/yolo/ {path}"),
            "mv .config .old; mkdir -p .config/playhouse; echo x > .config/playhouse/config.toml".to_owned(),
            "rm -r .config".to_owned(),
            "echo x > .config/playhouse/other.toml".to_owned(),
        ] {
            let (said, code) = bash(&mut bench, &attack).await;
            assert_ne!(code, Some(0), "{attack}: {said}");
        }
        let (said, code) = bash(&mut bench, "echo x >> project/made && cat project/made").await;
        assert_eq!(code, Some(0), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_bwrap_what_other_programs_run_is_neither_changed_nor_moved_away() {
    let workdir = workdir();
    let init =
        "git init -q . && git config user.email a@b && git config user.name n && mkdir -p .git/hooks .claude deploy";
    assert!(Command::new("sh").args(["-c", init]).current_dir(workdir.path()).status().unwrap().success());
    fs::write(workdir.path().join("deploy/prod.yaml"), "kept").unwrap();
    fs::create_dir_all(workdir.path().join("far/away")).unwrap();
    fs::write(workdir.path().join("far/away/key"), "kept").unwrap();
    let config = fs::read_to_string(workdir.path().join(".git/config")).unwrap();
    let rules = SandboxRules {
        guarded: ["deploy/prod.yaml", "far/away/key"].map(str::to_owned).to_vec(),
        ..SandboxRules::default()
    };
    let mut bench = Bench::confined(workdir.path(), sandbox(SandboxMode::Bwrap, rules)).await;
    for attack in [
        "echo x >> .git/config",
        "echo x > .git/hooks/pre-commit",
        "mv .git g; cp -r g .git; echo x >> .git/config; echo x > .git/hooks/pre-commit",
        "mv .git/hooks .git/h; mkdir .git/hooks; echo x > .git/hooks/pre-commit",
        "rm -rf .git .claude; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
        "mv .claude c; mkdir .claude; echo x > .claude/settings.json",
        "ln -s . l; mv l/.git g",
        "python3 -c 'import os; os.rename(\".git\", \"g\")'",
        "echo x > deploy/prod.yaml",
        "mv deploy/prod.yaml deploy/p; echo x > deploy/prod.yaml",
        "mv deploy d2 && mkdir deploy && echo x > deploy/prod.yaml",
        "mv far f2 && mkdir -p far/away && echo x > far/away/key",
        "mv far/away far/b && mkdir far/away && echo x > far/away/key",
    ] {
        let (said, _) = bash(&mut bench, attack).await;
        let is_there = |path: &str| workdir.path().join(path).exists();
        assert!(is_there(".git/hooks") && !is_there("g") && !is_there("c"), "{attack}: {said}");
        assert!(!is_there(".git/hooks/pre-commit") && !is_there(".claude/settings.json"), "{attack}: {said}");
        assert_eq!(fs::read_to_string(workdir.path().join(".git/config")).unwrap(), config, "{attack}: {said}");
        for guarded in ["deploy/prod.yaml", "far/away/key"] {
            assert_eq!(fs::read_to_string(workdir.path().join(guarded)).unwrap(), "kept", "{attack}: {said}");
        }
        // What the attack could take away is nothing that matters here.
        let again = Command::new("git").args(["init", "-q", "."]).current_dir(workdir.path()).status().unwrap();
        assert!(again.success());
    }
    let work = "echo x > far/away/other && echo x > deploy/other && echo x > g.txt && git add g.txt && git commit -qm one && git checkout -qb two && git gc -q";
    let (said, code) = bash(&mut bench, work).await;
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_granted_is_what_is_there_at_the_call() {
    for mode in TIERS {
        let workdir = workdir();
        let (cwd, hidden) = (workdir.path().join("work"), workdir.path().join("work/keys"));
        fs::create_dir(&cwd).unwrap();
        let mut bench = Bench::confined(&cwd, sandbox(mode, SandboxRules::default())).await;
        for number in 0..3 {
            // Another folder of the same name.
            fs::remove_dir_all(&cwd).unwrap();
            fs::create_dir(&cwd).unwrap();
            let (said, code) = bash(&mut bench, "touch new && test -e new").await;
            assert_eq!(code, Some(0), "{mode:?} {number}: {said}");
        }
        // Around something hidden, each thing is granted by itself: also one that has just come.
        let rules = SandboxRules { hidden: vec![hidden.clone()], ..SandboxRules::default() };
        let mut bench = Bench::confined(&cwd, sandbox(mode, rules)).await;
        fs::write(&hidden, "sekret-canary").unwrap();
        for number in 0..3 {
            fs::write(cwd.join(format!("file-{number}")), "given").unwrap();
            let (said, code) = bash(&mut bench, &format!("cat file-{number}; cat keys 2>/dev/null")).await;
            assert_eq!((said.contains("given"), said.contains("sekret")), (true, false), "{mode:?} {number}: {said}");
            assert_ne!(code, Some(0), "{mode:?} {number}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_files_are_one_runs_own_and_go_with_it() {
    for mode in [SandboxMode::Off, SandboxMode::Landlock, SandboxMode::Bwrap] {
        let workdir = workdir();
        let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
        let (place, _) = bash(&mut bench, "echo x > $TMPDIR/kept; mkdir $TMPDIR/folder; echo $TMPDIR").await;
        assert_eq!(bash(&mut bench, "cat $TMPDIR/kept").await.0, "x\n", "{mode:?}: it stays for the run");
        let mut other = Bench::confined(workdir.path(), plain(mode)).await;
        assert_ne!(bash(&mut other, "cat $TMPDIR/kept").await.1, Some(0), "{mode:?}: it is nobody else's");
        bench.executor.stop(None);
        if mode != SandboxMode::Bwrap {
            eventually("its end", || !Path::new(place.trim()).exists()).await;
        }
    }
}
