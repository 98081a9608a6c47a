//! Changing what is written about files outside: who may use them, whose they are, when they were changed.

use super::Must::{Harmless, Refused};
use super::Script::{Bash, Python};
use super::{ACCESS, Attack, Must, NO_CALL, NO_FILE, OTHER_DEVICE, PERM, READ_ONLY, attack};

const DENIED: Must = Refused(&[PERM, ACCESS]);
const GONE: Must = Refused(&[NO_FILE]);
const FIXED: Must = Refused(&[READ_ONLY]);
/// What a file system says to requests that it does not know.
const NO_REQUEST: &str = "Inappropriate ioctl for device";
const NOT_SUPPORTED: &str = "Operation not supported";
/// Calls that an older kernel does not have.
const DENIED_IF_THERE: Must = Refused(&[PERM, ACCESS, NO_CALL]);
const GONE_IF_THERE: Must = Refused(&[NO_FILE, PERM, NO_CALL]);

pub const ATTACKS: &[Attack] = &[
    attack("mode: by name", Bash("chmod 777 $OUT/kept"), DENIED, GONE),
    attack("mode: a folder", Bash("chmod 777 $OUT"), DENIED, GONE),
    attack("mode: the folder of keys", Bash("chmod 777 ~/.ssh"), DENIED, GONE),
    attack("mode: a file that may be read", Bash("chmod 777 $TOOL"), DENIED, FIXED),
    attack("mode: all of a folder", Bash("chmod -R 777 $OUT"), DENIED, GONE),
    attack("mode: by a descriptor", Python("os.fchmod(os.open(TOOL, 0), 0o777)"), DENIED, FIXED),
    attack(
        "mode: by the name of a descriptor",
        Python("os.chmod(f'/proc/self/fd/{os.open(TOOL, 0)}', 0o777)"),
        DENIED,
        FIXED,
    ),
    attack(
        "mode: by the name of a descriptor without rights",
        Python("os.chmod(f'/proc/self/fd/{os.open(OUT + \"/kept\", os.O_PATH)}', 0o777)"),
        DENIED,
        GONE,
    ),
    attack(
        "mode: by a descriptor without rights",
        Python("call(452, 452, os.open(OUT + '/kept', os.O_PATH), b'', 0o777, 0x1000)"),
        DENIED_IF_THERE,
        GONE,
    ),
    attack(
        "mode: in a folder's descriptor",
        Python("os.chmod('kept', 0o777, dir_fd=os.open(OUT, os.O_PATH))"),
        DENIED,
        GONE,
    ),
    attack(
        "mode: in a folder's descriptor, by the newest call",
        Python("call(452, 452, os.open(OUT, os.O_PATH), b'kept', 0o777, 0)"),
        DENIED_IF_THERE,
        GONE,
    ),
    attack(
        "mode: by a link to the file",
        Bash("ln -s $OUT/kept l; chmod 777 l"),
        DENIED,
        Refused(&["dangling symlink"]),
    ),
    attack("mode: by a link to the folder", Bash("ln -s $OUT l; chmod 777 l/kept"), DENIED, GONE),
    attack(
        "mode: by a chain of links",
        Bash("ln -s $OUT a; ln -s a b; mkdir c; ln -s ../b/kept c/d; chmod 777 c/d"),
        DENIED,
        Refused(&["dangling symlink"]),
    ),
    attack("mode: by the way up", Bash("chmod 777 ../outside/kept"), DENIED, GONE),
    attack("mode: by the root of its own process", Bash("chmod 777 /proc/self/root$OUT/kept"), DENIED, GONE),
    attack("mode: by the folder of its own process", Bash("chmod 777 /proc/self/cwd/../outside/kept"), DENIED, GONE),
    attack("mode: by another thread's folder", Bash("chmod 777 /proc/thread-self/cwd/../outside/kept"), DENIED, GONE),
    attack("mode: from within the folder", Bash("cd $OUT && chmod 777 kept"), DENIED, GONE),
    attack(
        "mode: by a hard link",
        Bash("ln $OUT/kept hard && chmod 777 hard"),
        Refused(&[PERM, ACCESS, OTHER_DEVICE]),
        GONE,
    ),
    attack("mode: by perl", Bash("perl -e 'chmod(0777, \"$ENV{OUT}/kept\") or die $!'"), DENIED, GONE),
    attack(
        "mode: folders that are exchanged meanwhile",
        Python(
            "os.mkdir('a'); open('a/kept', 'w'); os.symlink(OUT, 'b')\n\
             def swap():\n\
             \x20   for _ in range(5000): call(316, 276, -100, b'a', -100, b'b', 2)\n\
             other = threading.Thread(target=swap); other.start()\n\
             while other.is_alive():\n\
             \x20   try: os.chmod('a/kept', 0o777)\n\
             \x20   except OSError: pass",
        ),
        Harmless,
        Harmless,
    ),
    attack(
        "mode: a name that is changed in memory meanwhile",
        Python(
            "good, bad = (os.getcwd() + '/kept').encode() + b'\\0', (OUT + '/kept').encode() + b'\\0'\n\
             open('kept', 'w'); memory = mmap.mmap(-1, 4096); stop = mmap.mmap(-1, 1)\n\
             name = ctypes.c_char.from_buffer(memory); memory[:len(good)] = good\n\
             if os.fork() == 0:\n\
             \x20   while not stop[0]: memory[:len(bad)] = bad; memory[:len(good)] = good\n\
             \x20   os._exit(0)\n\
             end = time.monotonic() + 0.5\n\
             while time.monotonic() < end: libc.syscall(268 if IS_X86 else 53, -100, ctypes.byref(name), 0o777)\n\
             stop[0] = 1; os.wait()",
        ),
        Harmless,
        Harmless,
    ),
    attack(
        "mode: a descriptor that is exchanged meanwhile",
        Python(
            "mine, tool = os.open('kept', os.O_CREAT | os.O_RDWR), os.open(TOOL, 0); shown = os.dup(mine)\n\
             def swap():\n\
             \x20   for _ in range(5000): os.dup2(tool, shown); os.dup2(mine, shown)\n\
             other = threading.Thread(target=swap); other.start()\n\
             while other.is_alive():\n\
             \x20   try: os.fchmod(shown, 0o777)\n\
             \x20   except OSError: pass",
        ),
        Harmless,
        Harmless,
    ),
    attack("owner: by name", Bash("chown $(id -u):$(id -g) $OUT/kept"), DENIED, GONE),
    attack("owner: a group", Bash("chgrp $(id -g) $OUT/kept"), DENIED, GONE),
    attack("owner: a link itself", Bash("chown -h $(id -u) $OUT/link"), DENIED, GONE),
    attack("owner: by a descriptor", Python("os.fchown(os.open(TOOL, 0), os.getuid(), os.getgid())"), DENIED, FIXED),
    attack(
        "owner: by a descriptor without rights",
        Python("call(260, 54, os.open(OUT + '/kept', os.O_PATH), b'', os.getuid(), os.getgid(), 0x1000)"),
        DENIED,
        GONE,
    ),
    attack(
        "owner: by the oldest call",
        Python("call(92, None, (OUT + '/kept').encode(), os.getuid(), os.getgid())"),
        DENIED,
        Refused(&[NO_FILE, PERM]),
    ),
    attack(
        "owner: a link itself, by the oldest call",
        Python("call(94, None, (OUT + '/link').encode(), os.getuid(), os.getgid())"),
        DENIED,
        Refused(&[NO_FILE, PERM]),
    ),
    attack("times: by name", Bash("touch -c -d @0 $OUT/kept"), DENIED, Harmless),
    attack("times: by python", Python("os.utime(OUT + '/kept', (0, 0))"), DENIED, GONE),
    attack("times: by a descriptor", Python("os.utime(os.open(TOOL, 0), (0, 0))"), DENIED, FIXED),
    attack("times: now", Python("os.utime(os.open(TOOL, 0))"), DENIED, FIXED),
    attack("times: a link itself", Python("os.utime(OUT + '/link', (0, 0), follow_symlinks=False)"), DENIED, GONE),
    attack(
        "times: utime",
        Python("call(132, None, (OUT + '/kept').encode(), b'\\0' * 16)"),
        DENIED,
        Refused(&[NO_FILE, PERM]),
    ),
    attack(
        "times: utimes",
        Python("call(235, None, (OUT + '/kept').encode(), b'\\0' * 32)"),
        DENIED,
        Refused(&[NO_FILE, PERM]),
    ),
    attack(
        "times: futimesat",
        Python("call(261, None, -100, (OUT + '/kept').encode(), b'\\0' * 32)"),
        DENIED,
        Refused(&[NO_FILE, PERM]),
    ),
    attack("attributes: set", Python("os.setxattr(OUT + '/kept', 'user.x', b'x')"), DENIED, GONE),
    attack("attributes: set by a descriptor", Python("os.setxattr(os.open(TOOL, 0), 'user.x', b'x')"), DENIED, FIXED),
    attack(
        "attributes: set for a link itself",
        Python("os.setxattr(OUT + '/link', 'trusted.x', b'x', follow_symlinks=False)"),
        DENIED,
        Refused(&[NO_FILE, PERM]),
    ),
    attack("attributes: remove", Python("os.removexattr(OUT + '/kept', 'user.kept')"), DENIED, GONE),
    attack(
        "attributes: remove by a descriptor",
        Python("f = os.open(TOOL, 0); os.removexattr(f, 'user.kept')"),
        DENIED,
        FIXED,
    ),
    attack(
        "attributes: set, by the newest call",
        Python(
            "value = ctypes.create_string_buffer(b'x', 1)\n\
             call(463, 463, -100, (OUT + '/kept').encode(), 0, b'user.x', struct.pack('QII', \
             ctypes.addressof(value), 1, 0), 16)",
        ),
        DENIED_IF_THERE,
        GONE_IF_THERE,
    ),
    attack(
        "attributes: remove, by the newest call",
        Python("call(466, 466, -100, (OUT + '/kept').encode(), 0, b'user.kept')"),
        DENIED_IF_THERE,
        GONE_IF_THERE,
    ),
    attack(
        "attributes: others are let in by a list",
        Python(
            "entries = ((1, 7, 0xffffffff), (4, 7, 0xffffffff), (16, 7, 0xffffffff), (32, 7, 0xffffffff))\n\
             acl = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *entry) for entry in entries)\n\
             os.setxattr(OUT + '/kept', 'system.posix_acl_access', acl)",
        ),
        DENIED,
        GONE,
    ),
    attack("flags: chattr", Bash("chattr +d $TOOL"), DENIED, Refused(&[READ_ONLY, PERM])),
    attack(
        "flags: by a descriptor",
        Python("f = os.open(TOOL, 0); fcntl.ioctl(f, 0x40086602, struct.pack('l', 0x40))"),
        DENIED,
        Refused(&[READ_ONLY, PERM]),
    ),
    attack(
        "flags: by a descriptor, by the newer request",
        Python("f = os.open(TOOL, 0); fcntl.ioctl(f, 0x401c5820, struct.pack('IIIII', 0x80, 0, 0, 0, 0) + b'\\0' * 8)"),
        DENIED,
        Refused(&[READ_ONLY, PERM]),
    ),
    attack(
        "flags: by name, by the newest call",
        Python("call(469, 469, -100, (OUT + '/kept').encode(), struct.pack('QIIII', 0x80, 0, 0, 0, 0), 24, 0)"),
        DENIED_IF_THERE,
        GONE_IF_THERE,
    ),
    attack(
        "requests: the version of a file",
        Python("f = os.open(TOOL, 0); fcntl.ioctl(f, 0x40087602, struct.pack('l', 7))"),
        DENIED,
        Refused(&[READ_ONLY, PERM, NO_REQUEST]),
    ),
    attack(
        "requests: the version of a file, by its older number",
        Python("f = os.open(TOOL, 0); fcntl.ioctl(f, 0x40086604, struct.pack('l', 7))"),
        DENIED,
        Refused(&[READ_ONLY, PERM, NO_REQUEST]),
    ),
    attack(
        "requests: a folder is encrypted",
        Python("f = os.open(OUT, 0); fcntl.ioctl(f, 0x800c6613, struct.pack('BBBB8s', 0, 1, 4, 0, b'12345678'))"),
        DENIED,
        GONE,
    ),
    attack(
        "requests: a file is sealed for good",
        Python("f = os.open(TOOL, 0); fcntl.ioctl(f, 0x40806685, struct.pack('II', 1, 1) + b'\\0' * 120)"),
        DENIED,
        Refused(&[READ_ONLY, PERM, NO_REQUEST, NOT_SUPPORTED]),
    ),
    attack(
        "requests: a volume within a folder",
        Python("f = os.open(OUT, 0); fcntl.ioctl(f, 0x5000940e, bytearray(b'\\0' * 8 + b'new'.ljust(4088, b'\\0')))"),
        DENIED,
        GONE,
    ),
    attack(
        "requests: whoever opens a file waits",
        Python("f = os.open(TOOL, 0); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK)"),
        DENIED,
        Harmless,
    ),
    attack(
        "requests: a file that is open for nothing",
        Python("fcntl.fcntl(os.open(OUT + '/kept', 3), fcntl.F_SETLEASE, fcntl.F_WRLCK)"),
        DENIED,
        GONE,
    ),
    attack(
        "requests: a file that is open for nothing, by the newest call",
        Python(
            "f = libc.syscall(437, -100, (OUT + '/kept').encode(), struct.pack('QQQ', 3, 0, 0), 24)\n\
             if f < 0: raise OSError(2, os.strerror(2))\n\
             fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)",
        ),
        DENIED,
        GONE,
    ),
];
