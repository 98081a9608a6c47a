//! Writing outside of what may be written.

use super::Must::{Harmless, Refused, Through};
use super::Script::{Bash, Python};
use super::{ACCESS, Attack, BAD_DESCRIPTOR, INVALID, Must, NO_DEVICE, NO_FILE, OTHER_DEVICE, PERM, READ_ONLY, attack};

const DENIED: Must = Refused(&[ACCESS]);
const GONE: Must = Refused(&[NO_FILE]);
const ELSEWHERE: Must = Refused(&[ACCESS, OTHER_DEVICE]);
const FIXED: Must = Refused(&[READ_ONLY]);

pub const ATTACKS: &[Attack] = &[
    attack("write: open", Bash("echo x > $OUT/kept"), DENIED, GONE),
    attack("write: append", Bash("echo x >> $OUT/kept"), DENIED, GONE),
    attack("write: empty by name", Bash("truncate -s 0 $OUT/kept"), DENIED, GONE),
    attack("write: a new file", Bash("echo x > $OUT/new"), DENIED, GONE),
    attack("write: remove", Bash("rm -f $OUT/kept"), DENIED, Harmless),
    attack("write: remove a folder", Bash("rm -r $OUT/folder"), DENIED, GONE),
    attack("write: make a folder", Bash("mkdir $OUT/new"), DENIED, GONE),
    attack("write: make a pipe", Bash("mkfifo $OUT/new"), DENIED, GONE),
    attack("write: make a link", Bash("ln -s / $OUT/new"), DENIED, GONE),
    attack("write: move out of there", Bash("mv $OUT/kept ."), ELSEWHERE, GONE),
    attack("write: move to there", Bash("echo x > f; mv f $OUT/new"), DENIED, GONE),
    attack("write: move over a file", Bash("echo x > f; mv -f f $OUT/kept"), DENIED, GONE),
    attack(
        "write: exchange two files",
        Python("open('f', 'w'); call(316, 276, -100, b'f', -100, (OUT + '/kept').encode(), 2)"),
        ELSEWHERE,
        GONE,
    ),
    attack("write: a hard link to a file there", Bash("ln $OUT/kept hard && echo x > hard"), ELSEWHERE, GONE),
    attack("write: a hard link from there", Bash("echo x > f; ln f $OUT/new"), ELSEWHERE, GONE),
    attack("write: by a link to the folder", Bash("ln -s $OUT l; echo x > l/kept"), DENIED, GONE),
    attack(
        "write: by a link to the file",
        Bash("ln -s $OUT/kept l; echo x > l"),
        DENIED,
        Refused(&[NO_FILE, READ_ONLY]),
    ),
    attack("write: by the way up", Bash("echo x > ../outside/kept"), DENIED, GONE),
    attack("write: by the root of its own process", Bash("echo x > /proc/self/root$OUT/kept"), DENIED, GONE),
    attack("write: by the root of the house", Bash("echo x > /proc/$HOUSE/root$OUT/kept"), DENIED, GONE),
    attack("write: by the folder of a process", Bash("echo x > /proc/$VICTIM/cwd$OUT/kept"), DENIED, GONE),
    attack("write: by the root of the first process", Bash("echo x > /proc/1/root$OUT/kept"), DENIED, GONE),
    attack(
        "write: by a descriptor without rights",
        Python("f = os.open(OUT + '/kept', os.O_PATH); open(f'/proc/self/fd/{f}', 'w')"),
        DENIED,
        GONE,
    ),
    attack(
        "write: by a folder's descriptor without rights",
        Python("f = os.open(OUT, os.O_PATH); os.open('new', os.O_WRONLY | os.O_CREAT, dir_fd=f)"),
        DENIED,
        GONE,
    ),
    attack("write: a file without a name there", Python("os.open(OUT, os.O_TMPFILE | os.O_WRONLY)"), DENIED, GONE),
    attack(
        "write: a file without a name gets one there",
        Python(
            "f = os.open('.', os.O_TMPFILE | os.O_WRONLY)\n\
             os.link(f'/proc/self/fd/{f}', OUT + '/new', follow_symlinks=True)",
        ),
        ELSEWHERE,
        GONE,
    ),
    attack(
        "write: inherited descriptors",
        Python(
            "for f in range(3, 1024):\n\
             \x20   try: where = os.readlink(f'/proc/self/fd/{f}')\n\
             \x20   except OSError: continue\n\
             \x20   raise SystemExit(print('inherited', f, where))\n\
             os.write(3, b'x')",
        ),
        Refused(&[BAD_DESCRIPTOR]),
        Refused(&[BAD_DESCRIPTOR]),
    ),
    attack("write: room for a file", Bash("fallocate -l 100 $OUT/kept"), DENIED, GONE),
    attack("write: a clone of blocks", Bash("echo x > f; cp --reflink=always f $OUT/kept"), DENIED, GONE),
    attack(
        "write: into a file that is read, by copying",
        Python("open('f', 'w').write('x'); os.copy_file_range(os.open('f', 0), os.open(TOOL, 0), 1)"),
        Refused(&[BAD_DESCRIPTOR]),
        Refused(&[BAD_DESCRIPTOR]),
    ),
    attack(
        "write: into a file that is read, by a pipe",
        Python("r, w = os.pipe(); os.write(w, b'x'); os.splice(r, os.open(TOOL, 0), 1)"),
        Refused(&[BAD_DESCRIPTOR]),
        Refused(&[BAD_DESCRIPTOR]),
    ),
    attack(
        "write: a hole into a file that is read",
        Python("call(285, 47, os.open(TOOL, 0), 3, 0, 4)"),
        Refused(&[BAD_DESCRIPTOR]),
        Refused(&[BAD_DESCRIPTOR]),
    ),
    attack(
        "write: a clone of blocks into a file that is read",
        Python("open('f', 'w').write('x'); fcntl.ioctl(os.open(TOOL, 0), 0x40049409, os.open('f', 0))"),
        Refused(&[BAD_DESCRIPTOR]),
        Refused(&[BAD_DESCRIPTOR]),
    ),
    attack(
        "write: empty a file that is read",
        Python("os.ftruncate(os.open(TOOL, 0), 0)"),
        Refused(&[INVALID]),
        Refused(&[INVALID]),
    ),
    attack(
        "write: a file that is read, in memory",
        Python("mmap.mmap(os.open(TOOL, 0), 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)"),
        DENIED,
        DENIED,
    ),
    attack("write: a file that may be read", Bash("echo x > $TOOL"), DENIED, FIXED),
    attack("write: the home directory", Bash("echo x > ~/new"), DENIED, FIXED),
    attack("write: a rule of the user's", Bash("echo x > ~/.config/playhouse/config.toml"), DENIED, GONE),
    attack("write: a key that lets others in", Bash("echo x > ~/.ssh/authorized_keys"), DENIED, GONE),
    attack("write: what a shell runs", Bash("echo x > ~/.bashrc"), DENIED, FIXED),
    attack("write: /", Bash("echo x > /$NAME"), DENIED, FIXED).for_a_user(DENIED, FIXED),
    attack("write: /etc", Bash("echo x > /etc/$NAME"), DENIED, FIXED),
    attack("write: /usr", Bash("echo x > /usr/$NAME"), DENIED, FIXED),
    attack("write: /run", Bash("echo x > /run/$NAME"), DENIED, Refused(&[READ_ONLY, NO_FILE])),
    attack("write: /tmp", Bash("echo x > /tmp/$NAME"), DENIED, Harmless),
    attack("write: /var/tmp", Bash("echo x > /var/tmp/$NAME"), DENIED, Refused(&[READ_ONLY, NO_FILE])),
    attack("write: /dev/shm", Bash("echo x > /dev/shm/$NAME"), DENIED, Harmless),
    attack(
        "write: a setting of the kernel's",
        Bash("was=$(cat /proc/sys/kernel/core_pattern) && echo \"$was\" > /proc/sys/kernel/core_pattern"),
        DENIED,
        Refused(&[READ_ONLY, ACCESS]),
    ),
    attack(
        "write: /sys",
        Bash("was=$(cat /sys/kernel/profiling); echo \"$was\" > /sys/kernel/profiling"),
        DENIED,
        GONE,
    ),
    attack(
        "write: another control group",
        Python(
            "import glob\n\
             for f in glob.glob('/sys/fs/cgroup/**/cgroup.procs', recursive=True): open(f, 'w').write('0')\n\
             open('/sys/fs/cgroup/cgroup.procs', 'w')",
        ),
        DENIED,
        GONE,
    ),
    attack(
        "write: a device that it makes",
        Bash("mknod disk b 8 0 && cat disk"),
        Refused(&[PERM, ACCESS]),
        Refused(&[PERM]),
    ),
    attack(
        "write: the machine's disks",
        Python(
            "disks = [f'/dev/{name}' for name in os.listdir('/dev')]\n\
             disks = [path for path in disks if stat.S_ISBLK(os.stat(path).st_mode)] or ['/dev/sda']\n\
             for path in disks: os.open(path, os.O_WRONLY)",
        ),
        Refused(&[ACCESS, NO_FILE]),
        GONE,
    ),
    attack("write: the terminal of the house", Bash("echo x > /dev/tty"), DENIED, Refused(&[NO_DEVICE, ACCESS])),
    attack("write: a terminal of the user's", Bash("echo x > $PTS"), DENIED, Refused(&[NO_FILE, ACCESS])),
    attack("write: a new terminal", Python("os.openpty()"), DENIED, Harmless),
    attack(
        "write: a folder that is swapped for a link",
        Bash(
            "mkdir real; (for i in $(seq 100); do mv -T real tmp; ln -sfn $OUT real; rm -f real; mv -T tmp real; done) \
             2>/dev/null & for i in $(seq 1000); do echo x > real/f$i; done 2>/dev/null; wait",
        ),
        Harmless,
        Harmless,
    ),
    attack(
        "write: two folders that are exchanged",
        Python(
            "os.mkdir('a'); os.symlink(OUT, 'b')\n\
             def swap():\n\
             \x20   for _ in range(20000): call(316, 276, -100, b'a', -100, b'b', 2)\n\
             other = threading.Thread(target=swap); other.start()\n\
             while other.is_alive():\n\
             \x20   try: os.close(os.open('a/kept', os.O_WRONLY | os.O_CREAT | os.O_APPEND))\n\
             \x20   except OSError: pass",
        ),
        Harmless,
        Harmless,
    ),
    attack(
        "write: what the user's git runs",
        Bash("echo x >> .git/config && echo x > .git/hooks/pre-commit"),
        Through("In the tier `landlock` a command can write what your own programs run later"),
        FIXED,
    ),
    attack(
        "write: what the next agent is told",
        Bash("echo x > AGENTS.md"),
        Through("In either tier a command can make such a file where there is none, and change `AGENTS.md`"),
        Through("In either tier a command can make such a file where there is none, and change `AGENTS.md`"),
    ),
];
