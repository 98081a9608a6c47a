//! Going on after the call. Whatever they start has `$MARK` in its command line, and is looked for.

use super::Must::{Harmless, Refused};
use super::Script::{Bash, Python};
use super::{Attack, Must, NO_FILE, PERM, attack};

const NOT_THERE: Must = Refused(&["not found", NO_FILE, PERM, "Failed to connect", "Can't open"]);

pub const ATTACKS: &[Attack] = &[
    attack("after: in the background", Bash("sleep $MARK & disown"), Harmless, Harmless),
    attack("after: deaf to hanging up", Bash("nohup sleep $MARK >/dev/null 2>&1 &"), Harmless, Harmless),
    attack("after: a session of its own", Bash("setsid -f sleep $MARK"), Harmless, Harmless),
    attack(
        "after: forked twice",
        Bash("(setsid bash -c '(sleep $MARK </dev/null >/dev/null 2>&1 &)' &)"),
        Harmless,
        Harmless,
    ),
    attack(
        "after: without variables",
        Bash("(env -i setsid sleep $MARK </dev/null >/dev/null 2>&1 &)"),
        Harmless,
        Harmless,
    ),
    attack(
        "after: without the mark in its limits",
        Bash("(ulimit -x unlimited; exec setsid sleep $MARK </dev/null >/dev/null 2>&1 &)"),
        Harmless,
        Harmless,
    ),
    attack(
        "after: a daemon without anything",
        Python(
            "import resource\n\
             mark = os.environ['MARK']\n\
             if os.fork(): os._exit(0)\n\
             os.setsid()\n\
             if os.fork(): os._exit(0)\n\
             try: resource.setrlimit(10, (-1, -1))\n\
             except (OSError, ValueError): pass\n\
             try: resource.setrlimit(10, (7, 7))\n\
             except (OSError, ValueError): pass\n\
             os.chdir('/'); os.closerange(0, 100)\n\
             for _ in range(3): os.open('/dev/null', 2)\n\
             libc.prctl(4, 0, 0, 0, 0)\n\
             os.execve('/bin/sleep', ['sleep', mark], {})",
        ),
        Harmless,
        Harmless,
    ),
    attack(
        "after: a daemon that nobody may look at",
        Python(
            "if os.fork(): os._exit(0)\n\
             os.setsid()\n\
             if os.fork(): os._exit(0)\n\
             libc.prctl(4, 0, 0, 0, 0); os.closerange(0, 100)\n\
             time.sleep(float(os.environ['MARK']))",
        ),
        Harmless,
        Harmless,
    ),
    attack(
        "after: many that change places",
        Bash(
            "for i in 1 2 3 4 5; do (setsid bash -c 'for i in 1 2 3; do (sleep $MARK &) ; done; sleep $MARK' \
                </dev/null >/dev/null 2>&1 &); done",
        ),
        Harmless,
        Harmless,
    ),
    attack("after: stopped", Bash("(setsid sleep $MARK & kill -STOP $!) >/dev/null 2>&1"), Harmless, Harmless),
    attack("after: at", Bash("echo \"sleep $MARK\" | at now"), NOT_THERE, NOT_THERE),
    attack(
        "after: cron",
        Bash("echo x > /var/spool/cron/crontabs/$NAME || echo x > /etc/cron.d/$NAME"),
        Refused(&["Permission denied"]),
        Refused(&["Read-only file system", NO_FILE]),
    ),
    attack(
        "after: systemd",
        Bash("systemd-run --user sleep $MARK || systemd-run sleep $MARK"),
        NOT_THERE,
        Refused(&["not found", NO_FILE, PERM, "Failed"]),
    ),
    attack("after: another user's", Bash("su -c \"sleep $MARK\" nobody </dev/null"), Harmless, Harmless),
];
