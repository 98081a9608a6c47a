//! Ordinary work goes on in every sandbox.

use std::fs;

use playhouse_protocol::SandboxMode;
use playhouse_tools::SandboxRules;

use crate::common::{Bench, is_there};
use crate::{TIERS, bash, plain, sandbox, workdir};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_work_goes_on() {
    for mode in TIERS {
        let (workdir, more) = (workdir(), workdir());
        fs::write(more.path().join("given"), "given").unwrap();
        let rules = SandboxRules { read: vec![more.path().to_owned()], ..SandboxRules::default() };
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
        for good in [
            "ls / /usr/bin >/dev/null",
            "echo x > f && cat f | tr x y | grep -q y && rm f && mkdir -p a/b && mv a c",
            "printf x > \"$TMPDIR/t\" && test -s \"$TMPDIR/t\"",
            "cat <(echo a) > /dev/null; echo error >/dev/stderr; echo x | tee /dev/null",
            "python3 -c 'import json, subprocess, tempfile; tempfile.TemporaryFile(); \
                subprocess.check_call([\"true\"])'",
            "cargo --version",
            "git init -q . && git config user.email a@b && git config user.name n && echo x > g && git add g && \
             git commit -qm one && test -z \"$(git status --porcelain)\"",
            "ps >/dev/null && test \"$(id -u)\" = \"$(stat -c %u .)\"",
            "set -m; sleep 0.01 & wait; timeout 5 true",
            "perl -e 'use threads; threads->create(sub {})->join' 2>/dev/null || true",
        ] {
            let (said, code) = bash(&mut bench, good).await;
            assert_eq!(code, Some(0), "{mode:?}: {good}: {said}");
        }
        let given = more.path().join("given");
        assert_eq!(bash(&mut bench, &format!("cat {}", given.display())).await.0, "given", "{mode:?}");
        assert_ne!(bash(&mut bench, &format!("echo x > {}", given.display())).await.1, Some(0), "{mode:?}");
        let rules = SandboxRules { write: vec![more.path().to_owned()], ..SandboxRules::default() };
        let mut bench = Bench::confined(workdir.path(), sandbox(mode, rules)).await;
        assert_eq!(bash(&mut bench, &format!("echo x > {}", given.display())).await.1, Some(0), "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crate_with_a_dependency_is_built_offline() {
    // The one that this very test was built with. Not beneath another crate: cargo would want to read its settings.
    let workdir = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \
        \"2024\"\n[workspace]\n[dependencies]\nmemchr = \"2\"\n";
    fs::write(workdir.path().join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(workdir.path().join("src")).unwrap();
    fs::write(workdir.path().join("src/main.rs"), "fn main() { println!(\"{:?}\", memchr::memchr(b'b', b\"abc\")) }")
        .unwrap();
    let mut bench = Bench::confined(workdir.path(), plain(SandboxMode::Landlock)).await;
    let (said, code) = bash(&mut bench, "cargo run --offline --quiet").await;
    assert_eq!((said.as_str(), code), ("Some(1)\n", Some(0)));
}

/// Something that people do every day.
struct Work {
    name: &'static str,
    /// Programs that it needs and that not every machine has. Where one is missing it is left out, and that is said.
    needs: &'static [&'static str],
    script: &'static str,
}

const fn work(name: &'static str, script: &'static str) -> Work {
    Work { name, needs: &[], script }
}

/// Each in an empty folder; what fails ends it.
const WORKS: &[Work] = &[
    work(
        "git clone",
        "commit a && git clone -q a b && git clone -q file://$PWD/a c && git clone -q --no-hardlinks a d && \
         test -x b/run && test -x c/run && test -x d/run && test ! -x b/text",
    ),
    work(
        "git in its folder",
        "commit a && cd a && git checkout -qb two && echo 2 > two && git add . && git commit -qm two && \
         git checkout -q - && echo 3 > three && git add . && git commit -qm three && git rebase -q two && \
         git worktree add -q ../tree two && echo x >> text && git stash -q && git stash pop -q && git gc -q && \
         git config core.filemode true && chmod +x text && git diff --quiet || git diff --exit-code --summary | grep \
         -q 100755",
    ),
    work(
        "tar",
        "mkdir a && echo x > a/run && chmod 751 a/run && touch -d @1000000000 a/run && ln -s run a/link && \
         python3 -c 'import os; os.setxattr(\"a/run\", \"user.kept\", b\"1\")' && tar --xattrs -cf a.tar a && mkdir \
         b && \
         tar --xattrs -xpf a.tar -C b && test \"$(stat -c '%a %Y %u %g' a/run)\" = \"$(stat -c '%a %Y %u %g' \
         b/a/run)\" && \
         test $(stat -c %a b/a/run) = 751 && python3 -c 'import os; os.getxattr(\"b/a/run\", \"user.kept\")' && \
         tar -czf a.tgz a && mkdir c && tar -xzf a.tgz --no-same-permissions -C c && test -L c/a/link",
    ),
    Work {
        name: "npm install",
        needs: &["npm"],
        script: "mkdir -p dep/lib app && echo \
            '{\"name\":\"dep\",\"version\":\"1.0.0\",\"bin\":{\"dep\":\"lib/run.js\"}}' \
                 > dep/package.json && printf '#!/usr/bin/env node\\nconsole.log(7)\\n' > dep/lib/run.js && cd app && \
                 echo '{\"name\":\"app\",\"version\":\"1.0.0\",\"dependencies\":{\"dep\":\"file:../dep\"}}' > \
                 package.json && \
                 npm install --offline --no-audit --no-fund --install-links --cache $TMPDIR/npm --logs-max=0 && \
                 test $(node_modules/.bin/dep) = 7",
    },
    // What npm does, for machines that have none.
    work(
        "programs of packages",
        "mkdir -p pack/package app/node_modules/.bin && printf '#!/bin/sh\\necho 7\\n' > pack/package/run.sh && \
         tar -czf p.tgz -C pack package && tar -xzf p.tgz -C app/node_modules && cd app/node_modules && \
         mv package dep && chmod 755 dep/run.sh && ln -s ../dep/run.sh .bin/dep && touch -h -d @5 .bin/dep && test \
         $(.bin/dep) = 7",
    ),
    work(
        "cargo build",
        "mkdir src && printf '[package]\\nname = \"a\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > Cargo.toml && \
         echo 'fn main() { let out = std::env::var(\"OUT_DIR\").unwrap() + \"/x\"; std::fs::write(&out, \
         \"7\").unwrap(); \
         use std::os::unix::fs::PermissionsExt; \
         std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o600)).unwrap(); }' > build.rs && \
         echo 'fn main() { print!(\"{}\", include_str!(concat!(env!(\"OUT_DIR\"), \"/x\"))) }' > src/main.rs && \
         cargo build --offline -q && test \"$(target/debug/a)\" = 7",
    ),
    work(
        "make install",
        "printf 'all:\\n\\tprintf \"#!/bin/sh\\\\necho 7\\\\n\" > tool\\ninstall: all\\n\\tinstall -d -m 755 \
            $(PREFIX)/bin\\n\
         \\tinstall -m 755 tool $(PREFIX)/bin/tool\\n\\tinstall -p -m 644 Makefile $(PREFIX)/share\\n' > Makefile && \
         mkdir -p out && make -s install PREFIX=$PWD/out && test $(out/bin/tool) = 7 && test $(stat -c %a \
         out/bin/tool) = 755",
    ),
    work(
        "cc",
        "echo 'int main(void) { return 7; }' > a.c && cc -c a.c && ar rcs a.a a.o && cc -o a a.o && { ./a || test $? \
            = 7; }",
    ),
    work(
        "chmod",
        "printf '#!/bin/sh\\necho 7\\n' > x && chmod +x x && test $(./x) = 7 && chmod 400 x && test $(stat -c %a x) \
            = 400",
    ),
    work(
        "chmod of folders",
        "mkdir -p a/b && touch a/b/c && chmod -R go-rwx a && chmod 2755 a && find a -type f -exec chmod 640 {} + && \
            test $(stat -c %a a/b/c) = 640",
    ),
    work("chmod by a link", "echo x > x && ln -s x l && chmod 600 l && test $(stat -c %a x) = 600"),
    work(
        "chmod by a descriptor",
        "python3 -c 'import os; f = os.open(\"x\", os.O_CREAT | os.O_RDWR); os.fchmod(f, 0o755); os.fchown(f, \
            os.getuid(), os.getgid()); os.utime(f, (5, 5)); os.setxattr(f, \"user.x\", b\"x\"); os.removexattr(f, \
        \"user.x\")' && test $(stat -c '%a-%Y' x) = 755-5",
    ),
    work("chown", "echo x > x && ln -s x l && chown $(id -u):$(id -g) x && chgrp $(id -g) x && chown -h $(id -u) l"),
    work(
        "cp -a",
        "mkdir a && echo x > a/x && chmod 710 a && touch -d @7 a/x && ln a/x a/y && cp -a a b && test $(stat -c %a \
            b) = 710 && test $(stat -c %Y b/x) = 7 && cp --preserve=all a/x c",
    ),
    work(
        "moving to another folder",
        "mkdir a b && echo x > a/x && python3 -c 'import os; os.rename(\"a/x\", \"b/x\"); os.link(\"b/x\", \"a/y\")'",
    ),
    Work {
        name: "rsync",
        needs: &["rsync"],
        script: "mkdir a && echo x > a/x && touch -d @7 a/x && rsync -a a/ b/ && test $(stat -c %Y b/x) = 7",
    },
    work(
        "touch",
        "touch -d '2001-01-01' x && touch -r x y && test $(stat -c %Y x) = $(stat -c %Y y) && touch -h -d @5 x",
    ),
    work(
        "sed -i",
        "echo a > x && chmod 755 x && sed -i s/a/b/ x && test $(cat x) = b && test -x x && perl -pi -e s/b/c/ x && \
            test $(cat x) = c",
    ),
    work(
        "python's environments",
        "python3 -m venv --without-pip v && v/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'",
    ),
    work(
        "python's archives",
        "python3 -c 'import os, shutil; os.mkdir(\"a\"); open(\"a/x\", \"w\"); shutil.make_archive(\"b\", \"gztar\", \
            \"a\"); shutil.unpack_archive(\"b.tar.gz\", \"c\"); shutil.copytree(\"a\", \"d\"); shutil.copy2(\"a/x\", \
        \"e\")'",
    ),
    Work {
        name: "zip",
        needs: &["zip", "unzip"],
        script: "echo x > x && chmod 755 x && zip -q x.zip x && rm x && unzip -q x.zip && test -x x",
    },
    work(
        "gzip",
        "echo x > x && chmod 640 x && touch -d @7 x && gzip x && gunzip x.gz && test $(stat -c '%a-%Y' x) = 640-7",
    ),
    work(
        "mktemp",
        "f=$(mktemp) && d=$(mktemp -d) && echo x > $f && chmod 600 $f && mv $f $d/x && mv $d/x . && test -s x && \
            test $(stat -c %a x) = 600",
    ),
    work("umask", "umask 077 && echo x > x && mkdir d && test $(stat -c %a x) = 600 && test $(stat -c %a d) = 700"),
    Work {
        name: "patch",
        needs: &["patch", "diff"],
        script: "printf 'a\\nb\\n' > x && chmod 755 x && sed s/b/c/ x > y; { diff -u x y > p || true; } && patch -s \
            x p && grep -q c x && test -x x",
    },
    work(
        "flock",
        "exec 3> lock && flock -n 3 && { flock -n lock true && exit 1; true; } && python3 -c 'import fcntl; \
            fcntl.lockf(open(\"l\", \"w\"), fcntl.LOCK_EX)'",
    ),
    work(
        "its own priority",
        "nice -n 5 true && ionice -c 3 true && chrt -b 0 true && timeout 5 true && python3 -c 'import os; \
            os.nice(1); os.setpriority(os.PRIO_PROCESS, 0, 3)'",
    ),
    work(
        "its own processors",
        "python3 -c 'import os; os.sched_setaffinity(0, os.sched_getaffinity(0)); os.sched_setaffinity(os.getpid(), \
            os.sched_getaffinity(0))' && taskset -c $(python3 -c 'import os; print(min(os.sched_getaffinity(0)))') \
        true",
    ),
    work(
        "its own limits",
        "ulimit -n 64 && ulimit -c 0 && ulimit -s 4096 && python3 -c 'import resource; \
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))'",
    ),
    work(
        "processes and pipes",
        "python3 -c 'import multiprocessing as m, os; r, w = m.Pipe(); p = \
            m.get_context(\"fork\").Process(target=w.send, args=(7,)); p.start(); assert r.recv() == 7; p.join()'",
    ),
    work(
        "signals among its own",
        "sleep 60 & kill -STOP $! && kill -CONT $! && kill $! && { wait $! || test $? = 143; }",
    ),
    work(
        "attributes",
        "echo x > x && python3 -c 'import os; os.setxattr(\"x\", \"user.x\", b\"1\"); assert os.listxattr(\"x\") == \
            [\"user.x\"]; os.removexattr(\"x\", \"user.x\")'",
    ),
    work(
        "a database",
        "python3 -c 'import sqlite3; d = sqlite3.connect(\"d\"); d.execute(\"pragma journal_mode = wal\"); \
            d.execute(\"create table t (x)\"); d.commit()'",
    ),
];

/// What the scripts have besides programs.
const PRELUDE: &str = "set -e\nexport GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=n \
    GIT_COMMITTER_EMAIL=a@b\n\
    commit() { git init -q $1 && (cd $1 && echo x > text && echo x > run && chmod +x run && git add . && git commit \
    -qm one); }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyday_work_beneath_the_working_directory_goes_on() {
    let mut faults = Vec::new();
    for Work { name, needs, script } in WORKS {
        if !needs.iter().all(|program| is_there(program)) {
            continue;
        }
        for mode in TIERS {
            // Not beneath another crate: cargo would want to read its settings.
            let workdir = tempfile::tempdir_in("/var/tmp").unwrap();
            let mut bench = Bench::confined(workdir.path(), plain(mode)).await;
            let (said, code) = bash(&mut bench, &format!("{PRELUDE}{script}")).await;
            if code != Some(0) {
                faults.push(format!("{name} in {mode:?}: {said} ({code:?})"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
