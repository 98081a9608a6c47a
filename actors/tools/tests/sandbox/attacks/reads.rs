//! Reading what is hidden. What they look for is a word that must not be in the output.

use super::Must::{Harmless, Refused, Through};
use super::Script::{Bash, Python};
use super::{ACCESS, Attack, Must, NO_FILE, OTHER_DEVICE, PERM, attack};

const DENIED: Must = Refused(&[ACCESS]);
const GONE: Must = Refused(&[NO_FILE]);

pub const ATTACKS: &[Attack] = &[
    attack("read: a key", Bash("cat ~/.ssh/id"), DENIED, GONE),
    attack("read: a token", Bash("cat ~/.aws/credentials"), DENIED, GONE),
    attack("read: a password", Bash("cat ~/.netrc"), DENIED, GONE),
    attack("read: the user's rules", Bash("cat ~/.config/playhouse/config.toml"), DENIED, GONE),
    attack("read: a journal", Bash("cat ~/.local/share/playhouse/journal"), DENIED, GONE),
    attack("read: another file of the user's", Bash("cat ~/notes"), DENIED, GONE),
    attack("read: another folder", Bash("cat $OUT/kept"), DENIED, GONE),
    attack("read: all of the home directory", Bash("tar c ~ | cat; exit ${PIPESTATUS[0]}"), DENIED, Harmless),
    attack("read: a copy", Bash("cp -r ~/.ssh copy; cat copy/id"), DENIED, GONE),
    attack("read: a hard link", Bash("ln ~/.ssh/id hard && cat hard"), Refused(&[ACCESS, OTHER_DEVICE]), GONE),
    attack("read: a link", Bash("ln -s ~/.ssh l; cat l/id"), DENIED, GONE),
    attack("read: moved to here", Bash("mv ~/.ssh . && cat .ssh/id"), Refused(&[ACCESS, OTHER_DEVICE]), GONE),
    attack("read: by the root of its own process", Bash("cat /proc/self/root$HOME/.ssh/id"), DENIED, GONE),
    attack(
        "read: by a descriptor without rights",
        Python("f = os.open(HOME + '/.ssh/id', os.O_PATH); print(open(f'/proc/self/fd/{f}').read())"),
        DENIED,
        GONE,
    ),
    attack(
        "read: a folder that is exchanged for a hidden one",
        Python(
            "os.mkdir('a'); open('a/id', 'w'); os.symlink(HOME + '/.ssh', 'b')\n\
             def swap():\n\
             \x20   for _ in range(20000): call(316, 276, -100, b'a', -100, b'b', 2)\n\
             other = threading.Thread(target=swap); other.start()\n\
             while other.is_alive():\n\
             \x20   try: sys.stdout.write(open('a/id').read())\n\
             \x20   except OSError: pass",
        ),
        Harmless,
        Harmless,
    ),
    attack("read: names in another folder", Bash("ls $OUT | grep kept"), Through("the names in every folder"), GONE),
    attack("read: passwords of the machine", Bash("cat /etc/shadow"), DENIED, GONE)
        .for_a_user(DENIED, Refused(&[ACCESS, NO_FILE])),
    attack(
        "read: variables of the house",
        Bash("cat /proc/$HOUSE/environ | tr '\\0' '\\n'; exit ${PIPESTATUS[0]}"),
        DENIED,
        GONE,
    ),
    attack("read: memory of the house", Bash("head -c 100 /proc/$HOUSE/mem"), DENIED, GONE),
    attack("read: addresses of the house", Bash("cat /proc/$HOUSE/maps"), DENIED, GONE),
    attack("read: descriptors of the house", Bash("head -c 100 /proc/$HOUSE/fd/0"), DENIED, GONE),
    attack("read: the folder of the house", Bash("ls /proc/$HOUSE/cwd/"), DENIED, GONE),
    attack("read: the program of the house", Bash("head -c 4 /proc/$HOUSE/exe"), DENIED, GONE),
    attack(
        "read: the stack of the house",
        Bash("cat /proc/$HOUSE/stack /proc/$HOUSE/syscall"),
        Refused(&[ACCESS, PERM]),
        GONE,
    ),
    // One of them has the rights of a command: it starts the commands.
    attack(
        "read: variables of each thread of the house",
        Bash(
            "cat /proc/$HOUSE/task/*/environ | tr '\\0' '\\n'; for t in $(ls /proc/$HOUSE/task); do tr '\\0' '\\n' < \
                /proc/$t/environ; done; false",
        ),
        DENIED,
        GONE,
    ),
    attack(
        "read: memory of each thread of the house",
        Python(
            "for thread in os.listdir(f'/proc/{HOUSE}/task'):\n\
             \x20   try: maps = open(f'/proc/{HOUSE}/task/{thread}/maps').read().splitlines()\n\
             \x20   except PermissionError: continue\n\
             \x20   memory = os.open(f'/proc/{HOUSE}/task/{thread}/mem', 0)\n\
             \x20   for line in maps:\n\
             \x20       if '[stack]' in line:\n\
             \x20           begin, end = (int(part, 16) for part in line.split()[0].split('-'))\n\
             \x20           if b'sekret-' + b'canary' in os.pread(memory, end - begin, begin): \
             sys.exit(print('sekret-' + 'canary'))\n\
             open(f'/proc/{HOUSE}/mem')",
        ),
        DENIED,
        GONE,
    ),
    attack(
        "read: descriptors of each thread of the house",
        Bash("for t in $(ls /proc/$HOUSE/task); do readlink /proc/$t/fd/* && exit 0; done; cat /proc/$HOUSE/fd/0"),
        DENIED,
        GONE,
    ),
    attack(
        "read: variables of a process",
        Bash("cat /proc/$VICTIM/environ | tr '\\0' '\\n'; exit ${PIPESTATUS[0]}"),
        DENIED,
        GONE,
    ),
    attack("read: memory of a process", Bash("head -c 100 /proc/$VICTIM/mem"), DENIED, GONE),
    attack("read: descriptors of a process", Bash("head -c 100 /proc/$VICTIM/fd/0"), DENIED, GONE),
    attack(
        "read: which processes there are",
        Bash("cat /proc/$VICTIM/cmdline | tr '\\0' ' '; exit ${PIPESTATUS[0]}"),
        Through("are seen, but not signalled"),
        GONE,
    ),
    attack(
        "read: memory of the kernel",
        Bash("head -c 100 /proc/kcore"),
        Refused(&[ACCESS, NO_FILE]),
        Refused(&[ACCESS, NO_FILE]),
    ),
    attack("read: memory of the machine", Bash("head -c 100 /dev/mem"), Refused(&[ACCESS, NO_FILE]), GONE),
    attack(
        "read: the machine's disks",
        Python(
            "disks = [f'/dev/{name}' for name in os.listdir('/dev')]\n\
             disks = [path for path in disks if stat.S_ISBLK(os.stat(path).st_mode)] or ['/dev/sda']\n\
             for path in disks: os.open(path, os.O_RDONLY)",
        ),
        Refused(&[ACCESS, NO_FILE]),
        GONE,
    ),
    attack("read: what the kernel says", Bash("dmesg"), Refused(&[PERM, ACCESS]), Refused(&[PERM])),
    attack("read: what the kernel says, by its device", Bash("head -c 100 /dev/kmsg"), DENIED, GONE),
    attack(
        "read: a file by its handle",
        Python("call(304, 265, os.open('.', 0), b'\\0' * 136, 0)"),
        Refused(&[PERM]),
        Refused(&[PERM]),
    ),
    attack("read: a terminal of the user's", Bash("timeout 1 head -c 1 $PTS"), DENIED, GONE),
];
