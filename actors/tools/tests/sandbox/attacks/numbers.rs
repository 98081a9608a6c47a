//! Taking too much: the limits are 50 processes, 200 MiB of memory, and files of 1 MiB.

use super::Must::{Ended, Harmless, Refused};
use super::Script::{Bash, Python};
use super::{ACCESS, Attack, Must, NO_FILE, PERM, attack};

const FULL: Must = Ended("memory");
const FILTERED: Must = Refused(&[PERM]);

pub const ATTACKS: &[Attack] = &[
    attack("numbers: memory", Python("x = bytearray(400 << 20); time.sleep(8)"), FULL, FULL),
    attack(
        "numbers: memory of many",
        Python("for _ in range(4): os.fork() or (bytearray(100 << 20), time.sleep(8), os._exit(0))\ntime.sleep(8)"),
        FULL,
        FULL,
    ),
    attack(
        "numbers: memory that is shared",
        Python("x = mmap.mmap(-1, 400 << 20); x.write(b'x' * (400 << 20)); time.sleep(8)"),
        FULL,
        FULL,
    ),
    attack(
        "numbers: files in memory",
        Python(
            "for _ in range(400):\n\
             \x20   f = os.memfd_create('x')\n\
             \x20   os.write(f, b'x' * (1 << 20))\n\
             time.sleep(8)",
        ),
        FULL,
        FULL,
    ),
    attack(
        "numbers: a folder in memory",
        Bash("for i in $(seq 400); do head -c 1048576 /dev/zero > /dev/shm/$NAME-$i || exit 1; done; sleep 8"),
        Refused(&["Permission denied"]),
        Refused(&["No space left on device"]),
    ),
    attack("numbers: System V memory", Python("call(29, 194, KEY, 1 << 20, 0o1600)"), FILTERED, Harmless),
    attack("numbers: a System V semaphore", Python("call(64, 190, KEY, 1, 0o1600)"), FILTERED, Harmless),
    attack("numbers: a System V queue", Python("call(68, 186, KEY, 0o1600)"), FILTERED, Harmless),
    attack(
        "numbers: a POSIX queue",
        Python("call(240, 180, NAME.encode(), 0o102, 0o600, 0)"),
        Refused(&[PERM, ACCESS]),
        Harmless,
    ),
    attack(
        "numbers: a POSIX semaphore",
        Bash("echo x > /dev/shm/sem.$NAME"),
        Refused(&["Permission denied"]),
        Harmless,
    ),
    attack(
        "numbers: processes",
        Python("for _ in range(400): os.fork() or (time.sleep(8), os._exit(0))\ntime.sleep(8)"),
        Ended("processes"),
        Ended("processes"),
    ),
    attack(
        "numbers: a fork bomb",
        Bash("bomb() { bomb | bomb & }; bomb; sleep 8"),
        Ended("processes"),
        Ended("processes"),
    ),
    attack(
        "numbers: threads",
        Python(
            "threading.stack_size(65536)\nfor _ in range(600): threading.Thread(target=time.sleep, args=(8,)).start()",
        ),
        Ended("threads"),
        Ended("threads"),
    ),
    attack(
        "numbers: a large file",
        Bash("head -c 3000000 /dev/zero > big; test $(stat -c %s big) -gt 1048576"),
        Refused(&[""]),
        Refused(&[""]),
    ),
    attack(
        "numbers: more room for files",
        Bash("ulimit -f unlimited"),
        Refused(&["cannot modify limit"]),
        Refused(&["cannot modify limit"]),
    ),
    attack(
        "numbers: more processes",
        Bash("ulimit -u unlimited; for i in $(seq 400); do sleep $MARK & done; wait"),
        Ended("processes"),
        Ended("processes"),
    ),
    attack(
        "numbers: the mark in its limits",
        Bash("ulimit -x unlimited || ulimit -x 5"),
        Refused(&[PERM, "cannot modify limit"]),
        // There its namespace ends with it.
        Harmless,
    ),
    attack("numbers: much output", Bash("yes | head -c 100000000"), Harmless, Harmless),
    attack(
        "numbers: pages that cannot be swapped",
        Python("r = libc.mlockall(3); x = bytearray(400 << 20); time.sleep(8)"),
        FULL,
        FULL,
    ),
    attack("numbers: large pages", Python("mmap.mmap(-1, 2 << 20, flags=0x40022)"), Harmless, Harmless),
    attack("numbers: a swap file", Bash("swapon ./x"), Refused(&[PERM, NO_FILE]), Refused(&[PERM, NO_FILE])),
];
