//! Reaching other processes, above all the house: to end, stop, slow down or lead it.

use super::Must::{Harmless, Refused};
use super::Script::{Bash, Python};
use super::{ACCESS, Attack, Must, NO_FILE, NO_PROCESS, PERM, attack};

const DENIED: Must = Refused(&[PERM, ACCESS]);
const NOBODY: Must = Refused(&[NO_PROCESS]);
/// What the filter refuses wherever it is asked.
const FILTERED: Must = Refused(&[PERM]);
const EITHER: Must = Refused(&[NO_PROCESS, PERM]);

pub const ATTACKS: &[Attack] = &[
    attack("processes: end one", Bash("kill $VICTIM"), DENIED, NOBODY),
    attack("processes: end the house", Bash("kill -KILL $HOUSE"), DENIED, NOBODY),
    attack("processes: stop the house", Bash("kill -STOP $HOUSE"), DENIED, NOBODY),
    attack("processes: stop one", Bash("kill -STOP $VICTIM"), DENIED, NOBODY),
    attack("processes: signal all", Bash("kill -WINCH -1"), Harmless, Harmless),
    attack(
        "processes: signal the group of the house",
        Bash("kill -WINCH -- -$(ps -o pgid= -p $HOUSE | tr -d ' ')"),
        DENIED,
        Harmless,
    ),
    // One of them has the rights of a command: it starts the commands. The signal is one that ends nobody.
    attack(
        "processes: signal each thread of the house",
        Python(
            "threads = os.listdir(f'/proc/{HOUSE}/task')\n\
             for thread in threads:\n\
             \x20   try: os.kill(int(thread), 0)\n\
             \x20   except PermissionError: continue\n\
             \x20   sys.exit(print('reached', thread, open(f'/proc/{thread}/comm').read()))\n\
             os.kill(HOUSE, 0)",
        ),
        DENIED,
        Refused(&[NO_FILE]),
    ),
    attack(
        "processes: signal each thread of the house, by its group",
        Python(
            "for thread in os.listdir(f'/proc/{HOUSE}/task'):\n\
             \x20   try: call(234, 131, HOUSE, int(thread), 0)\n\
             \x20   except PermissionError: continue\n\
             \x20   sys.exit(print('reached', thread))\n\
             os.kill(HOUSE, 0)",
        ),
        DENIED,
        Refused(&[NO_FILE]),
    ),
    attack(
        "processes: a queued signal",
        Python("call(129, 138, VICTIM, 15, struct.pack('iiiiii', 15, 0, -1, 0, 0, 0) + b'\\0' * 104)"),
        DENIED,
        EITHER,
    ),
    attack(
        "processes: a signal by a descriptor",
        Python("call(424, 424, call(434, 434, VICTIM, 0), 15, 0, 0)"),
        DENIED,
        NOBODY,
    ),
    attack(
        "processes: a signal by a folder of processes",
        Python("call(424, 424, os.open(f'/proc/{VICTIM}', os.O_DIRECTORY), 15, 0, 0)"),
        DENIED,
        Refused(&[NO_FILE]),
    ),
    attack(
        "processes: a signal by input and output",
        Python(
            "r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC); fcntl.fcntl(r, fcntl.F_SETOWN, VICTIM)\n\
             fcntl.fcntl(r, fcntl.F_SETSIG if hasattr(fcntl, 'F_SETSIG') else 10, 15); os.write(w, b'x')",
        ),
        Harmless,
        Harmless,
    ),
    attack(
        "processes: a descriptor of the house's",
        Python("call(438, 438, call(434, 434, HOUSE, 0), 0, 0)"),
        FILTERED,
        EITHER,
    ),
    attack("processes: trace", Python("call(101, 117, 16, VICTIM, 0, 0)"), FILTERED, FILTERED),
    attack("processes: take hold of", Python("call(101, 117, 0x4206, VICTIM, 0, 0)"), FILTERED, FILTERED),
    attack(
        "processes: debug",
        Bash("strace -p $VICTIM || gdb -batch -p $VICTIM || head -c 1 /proc/$VICTIM/mem"),
        DENIED,
        Refused(&[PERM, NO_FILE, NO_PROCESS]),
    ),
    attack("processes: write memory", Bash("echo x > /proc/$VICTIM/mem"), DENIED, Refused(&[NO_FILE])),
    attack("processes: nicer", Bash("renice -n 5 -p $VICTIM"), DENIED, EITHER),
    attack("processes: the house nicer", Bash("renice -n 5 -p $HOUSE"), DENIED, EITHER),
    attack(
        "processes: all of the user's nicer",
        Python("os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_USER, 0))"),
        DENIED,
        Harmless,
    ),
    attack(
        "processes: the group of the house nicer",
        Python(
            "group = int(open(f'/proc/{HOUSE}/stat').read().rsplit(')')[1].split()[2])\nos.setpriority(os.PRIO_PGRP, \
                group, os.getpriority(os.PRIO_PGRP, group))",
        ),
        DENIED,
        Refused(&[NO_FILE]),
    ),
    attack(
        "processes: each thread of the house nicer",
        Python("for thread in os.listdir(f'/proc/{HOUSE}/task'): os.setpriority(os.PRIO_PROCESS, int(thread), 5)"),
        DENIED,
        Refused(&[NO_FILE]),
    ),
    attack("processes: idle at the disk", Bash("ionice -c 3 -p $VICTIM"), DENIED, EITHER),
    attack(
        "processes: all of the user's idle at the disk",
        Python("call(251, 30, 3, os.getuid(), 0)"),
        DENIED,
        Harmless,
    ),
    attack("processes: another processor", Bash("taskset -p 1 $VICTIM"), DENIED, EITHER),
    attack("processes: another class", Bash("chrt -i -p 0 $VICTIM"), DENIED, EITHER),
    attack(
        "processes: another class, by attributes",
        Python("call(314, 274, VICTIM, struct.pack('IIQiIQQQ', 48, 5, 0, 0, 0, 0, 0, 0), 0)"),
        DENIED,
        EITHER,
    ),
    attack("processes: another class, by parameters", Python("call(142, 118, VICTIM, b'\\0' * 4)"), DENIED, EITHER),
    attack("processes: first of all", Bash("chrt -f -p 50 $$ && renice -n -20 -p $$"), DENIED, DENIED),
    attack("processes: limits of another", Bash("prlimit --pid $VICTIM --nofile=1:1"), FILTERED, FILTERED),
    attack("processes: limits of the house", Bash("prlimit --pid $HOUSE --nofile=1:1"), FILTERED, FILTERED),
    attack(
        "processes: the first to go without memory",
        Bash("echo 1000 > /proc/$VICTIM/oom_score_adj"),
        DENIED,
        Refused(&[NO_FILE]),
    ),
    attack("processes: another name", Bash("echo x > /proc/$VICTIM/comm"), DENIED, Refused(&[NO_FILE])),
    attack(
        "processes: pages of another",
        Python("call(279, 239, VICTIM, 0, 0, 0, 0, 0)"),
        Refused(&[PERM, ACCESS]),
        EITHER,
    ),
    attack(
        "processes: move pages of another",
        Python("call(256, 238, VICTIM, 64, b'\\1' + b'\\0' * 15, b'\\1' + b'\\0' * 15)"),
        Refused(&[PERM, ACCESS]),
        EITHER,
    ),
    attack("processes: its group", Python("os.setpgid(VICTIM, 0)"), Refused(&[NO_PROCESS, PERM]), EITHER),
    attack(
        "processes: words for its terminal",
        Python(
            "f = os.open('/dev/null', 0)\n\
             fcntl.ioctl(f, 0x5412, b'x')",
        ),
        FILTERED,
        FILTERED,
    ),
    attack(
        "processes: what is pasted into a console",
        Python("fcntl.ioctl(os.open('/dev/null', 0), 0x541c, b'\\3')"),
        FILTERED,
        FILTERED,
    ),
    attack(
        "processes: a core file elsewhere",
        Bash("ulimit -c unlimited; cd $OUT; sh -c 'kill -SEGV $$'"),
        Harmless,
        Harmless,
    ),
];
