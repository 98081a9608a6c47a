//! Getting more rights: of root, of the kernel's, or by a namespace in which one is root.

use super::Must::{Harmless, Refused};
use super::Script::{Bash, Python};
use super::{ACCESS, Attack, INVALID, Must, NO_FILE, PERM, attack};

const FILTERED: Must = Refused(&[PERM]);
const USELESS: Must = Refused(&[
    PERM,
    ACCESS,
    "not found",
    "must be suid",
    "Authentication",
    "may not run",
    "must be run from",
    "setuid root",
    "no new privileges",
]);

pub const ATTACKS: &[Attack] = &[
    attack("rights: sudo", Bash("sudo -n id"), USELESS, USELESS),
    attack(
        "rights: su",
        Bash(
            "su -c id root </dev/null | grep -q uid=0 && test $(id -u) != 0 || { echo Operation not permitted; \
                false; }",
        ),
        FILTERED,
        FILTERED,
    ),
    attack(
        "rights: new ones",
        Bash("grep -q '^NoNewPrivs:.0' /proc/self/status || { echo Operation not permitted; false; }"),
        FILTERED,
        FILTERED,
    ),
    attack(
        "rights: over the machine",
        Python(
            "rights = [line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapPrm', \
                'CapInh', 'CapAmb'))]\n\
         over_files = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 10\n\
         more = [hex(int(has, 16)) for has in rights if int(has, 16) & ~over_files]\n\
         if not more: raise PermissionError(1, 'Operation not permitted')\n\
         print(more)",
        ),
        FILTERED,
        FILTERED,
    ),
    attack(
        "rights: ambient ones",
        Python("libc.prctl(47, 2, 21, 0, 0) and call(165, 40, 0, 0, 0, 0, 0)"),
        FILTERED,
        FILTERED,
    ),
    attack(
        "rights: back to more",
        Python(
            "header = struct.pack('II', 0x20080522, 0); data = struct.pack('III', 1 << 21, 1 << 21, 0) + b'\\0' * 12\n\
         call(126, 91, header, data)",
        ),
        FILTERED,
        FILTERED,
    ),
    attack(
        "rights: root's number",
        Python("os.setuid(1) if os.getuid() == 0 else os.setuid(0)"),
        Refused(&[PERM, INVALID]),
        Refused(&[PERM, INVALID]),
    ),
    attack(
        "rights: root's group",
        Python("os.setgroups([0, 1, 4]) if os.getuid() == 0 else os.setgid(0)"),
        Refused(&[PERM, INVALID]),
        Refused(&[PERM, INVALID]),
    ),
    attack(
        "rights: a program with root's number",
        Bash("cp /bin/sh sh; chmod 4755 sh; ./sh -p -c 'grep -q \"^CapEff:.*fff\" /proc/self/status'"),
        Harmless,
        Harmless,
    ),
    attack(
        "rights: a program with rights",
        Python(
            "open('f', 'w'); os.setxattr('f', 'security.capability', struct.pack('<IIIII', 0x2000001, 1 << 21, 0, 0, \
                0))",
        ),
        FILTERED,
        FILTERED,
    ),
    attack("rights: without the filter", Python("call(317, 277, 0, 0, 0)"), Refused(&[INVALID]), Refused(&[INVALID])),
    attack("rights: another personality", Python("call(135, 92, 0x0040000)"), FILTERED, FILTERED),
    attack("rights: a user namespace", Bash("unshare -U true"), FILTERED, FILTERED),
    attack("rights: a namespace with a user's map", Bash("unshare -Ur mount -t tmpfs x /mnt"), FILTERED, FILTERED),
    attack("rights: another file system", Bash("unshare -m true"), FILTERED, FILTERED),
    attack("rights: another network", Bash("unshare -n true"), FILTERED, FILTERED),
    attack("rights: other processes", Bash("unshare -p -f true"), FILTERED, FILTERED),
    attack("rights: other queues", Bash("unshare -i true"), FILTERED, FILTERED),
    attack("rights: another name of the machine", Bash("unshare -u hostname x"), FILTERED, FILTERED),
    attack("rights: another clock", Python("call(272, 97, 0x80)"), FILTERED, FILTERED),
    attack("rights: another group of groups", Python("call(272, 97, 0x02000000)"), FILTERED, FILTERED),
    attack(
        "rights: a process in a namespace",
        Python("call(56, 220, 0x10000000 | 17, 0, 0, 0, 0)"),
        FILTERED,
        FILTERED,
    ),
    attack(
        "rights: a process in a namespace, by the newest call",
        Python("call(435, 435, b'\\0' * 88, 88)"),
        Refused(&["Function not implemented"]),
        Refused(&["Function not implemented"]),
    ),
    attack(
        "rights: the namespaces of the first process",
        Bash("nsenter -t 1 -m true"),
        Refused(&[PERM, ACCESS]),
        Refused(&[PERM, ACCESS, NO_FILE]),
    ),
    attack(
        "rights: mount",
        Bash("mkdir m; mount -t tmpfs x m"),
        Refused(&[PERM, "must be superuser", "permission denied"]),
        Refused(&[PERM, "must be superuser", "permission denied"]),
    ),
    attack(
        "rights: mount a folder",
        Bash("mkdir m; mount --bind / m"),
        Refused(&[PERM, "must be superuser", "permission denied"]),
        Refused(&[PERM, "must be superuser", "permission denied"]),
    ),
    attack("rights: another root", Bash("chroot . true"), Refused(&[PERM]), Refused(&[PERM])),
    attack(
        "rights: a sandbox in the sandbox",
        Bash("bwrap --ro-bind / / true"),
        Refused(&[PERM, "setting up uid map", "No permissions", ACCESS]),
        Refused(&[PERM, "No permissions", ACCESS]),
    ),
    attack("rights: a thread's own Landlock", Python("call(446, 446, 0, 0)"), Harmless, Harmless),
    // A program of 32 bits: getpid by `int 0x80`, whose number is another call's here. It exits with 0 if it runs.
    attack(
        "rights: calls of 32 bits",
        Python(
            "code = bytes.fromhex('b814000000cd80' 'bb00000000' 'b801000000cd80')\n\
         head = b'\\x7fELF\\1\\1\\1' + b'\\0' * 9 + struct.pack('<HHIIIIIHHHHHH', 2, 3, 1, 0x8048054, 52, 0, 0, 52, \
         32, 1, 0, 0, 0)\n\
         segment = struct.pack('<IIIIIIII', 1, 0, 0x8048000, 0x8048000, 84 + len(code), 84 + len(code), 5, 4096)\n\
         f = os.open('small', os.O_CREAT | os.O_WRONLY, 0o755); os.write(f, head + segment + code); os.close(f)\n\
         if os.fork() == 0: os.execv('./small', ['small'])\n\
         ended = os.wait()[1]\n\
         if ended == 0: sys.exit(print('it ran'))\n\
         raise PermissionError(1, 'Operation not permitted')",
        ),
        FILTERED,
        FILTERED,
    ),
    attack("rights: calls of pointers of 32 bits", Python("call(0x40000000 + 39, None)"), FILTERED, FILTERED),
];
