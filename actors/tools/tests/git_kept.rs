//! What git runs, in the repositories of submodules and worktrees, is kept from commands under bubblewrap; work goes on.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use common::{Bench, text};
use playhouse_protocol::SandboxMode;
use playhouse_tools::{Sandbox, SandboxRules};
use serde_json::json;

/// A repository with a submodule whose name has a slash, and with a worktree. Its origin is beside it.
const MADE: &str = "
    set -e
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always
    new() { git init -q -b main $1; git -C $1 config user.email a@b; git -C $1 config user.name n; }
    new origin; echo one > origin/file; git -C origin add file; git -C origin commit -qm one
    new work; cd work; git submodule --quiet add ../origin libs/sub; git commit -qm one
    git -C libs/sub config user.email a@b; git -C libs/sub config user.name n
    git worktree add -q tree; git config extensions.worktreeConfig true; git -C tree config --worktree x.y z
    mkdir -p .git/modules/libs/sub/hooks; echo '* text' > .git/info/attributes
    echo two > ../origin/file; git -C ../origin commit -qam two";

/// What must stay as it is, or not be there.
fn kept(work: &Path) -> Vec<Option<String>> {
    let kept = [
        ".git/config",
        ".git/info/attributes",
        ".git/modules/libs/sub/config",
        ".git/modules/libs/sub/hooks/pre-commit",
        ".git/worktrees/tree/config.worktree",
    ];
    kept.iter().map(|name| fs::read_to_string(work.join(name)).ok()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_bwrap_what_git_runs_of_submodules_and_worktrees_is_not_changed_and_work_goes_on() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let made = Command::new("bash").args(["-c", MADE]).current_dir(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let work = folder.path().join("work");
    let before = kept(&work);
    let rules = SandboxRules { read: vec![folder.path().join("origin")], ..SandboxRules::default() };
    let mut bench = Bench::confined(&work, Sandbox { mode: SandboxMode::Bwrap, rules: Arc::new(rules) }).await;
    for line in [
        "git -C libs/sub -c protocol.file.allow=always fetch -q && git -C libs/sub checkout -q origin/main",
        "echo x > libs/sub/new && git -C libs/sub add new && git -C libs/sub commit -qm new",
        "git commit -qam 'the submodule' && git submodule status && git submodule --quiet foreach git status --short",
        "echo x > tree/new && git -C tree add new && git -C tree commit -qm new && git worktree add -q other",
        "git status --short && git gc -q && git fsck",
    ] {
        let answer = bench.run("bash", json!({"command": line, "timeout_ms": 60_000})).await;
        let code = answer.as_ref().unwrap().details["exit_code"].as_i64();
        assert_eq!(code, Some(0), "{line}: {}", text(&answer));
    }
    // It writes where the submodule's files are into its configuration, though that stands there already.
    let answer = bench.run("bash", json!({"command": "git submodule update", "timeout_ms": 60_000})).await;
    assert!(text(&answer).contains("could not set 'core.worktree'"), "{}", text(&answer));
    // Last: what cannot be moved is copied and emptied.
    for attack in [
        "echo x >> .git/modules/libs/sub/config",
        "echo x > .git/modules/libs/sub/hooks/pre-commit",
        "echo x >> .git/worktrees/tree/config.worktree",
        "echo x >> .git/info/attributes",
        "mv .git/info i; mkdir .git/info; echo x > .git/info/attributes",
        "mv .git/modules m; cp -r m .git/modules; echo x >> .git/modules/libs/sub/config",
        "mv .git/modules/libs l; cp -r l .git/modules/libs; echo x >> .git/modules/libs/sub/config",
        "mv .git/modules/libs/sub s; cp -r s .git/modules/libs/sub; echo x >> .git/modules/libs/sub/config",
        "mv .git/worktrees w; cp -r w .git/worktrees; echo x >> .git/worktrees/tree/config.worktree",
        "mv .git/worktrees/tree w; cp -r w .git/worktrees/tree; echo x >> .git/worktrees/tree/config.worktree",
    ] {
        let answer = bench.run("bash", json!({"command": attack, "timeout_ms": 60_000})).await;
        assert_eq!(kept(&work), before, "{attack}: {}", text(&answer));
    }
}
