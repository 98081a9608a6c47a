//! Reaching others: none of it is granted.

use super::Must::{Harmless, Refused};
use super::Script::{Bash, Python};
use super::{ACCESS, Attack, Must, NO_FILE, NOBODY_LISTENS, PERM, UNREACHABLE, attack};

const FILTERED: Must = Refused(&[PERM]);
/// A loopback of its own, where nobody is.
const ALONE: Must = Refused(&[NOBODY_LISTENS]);
const NOWHERE: Must = Refused(&[UNREACHABLE]);

pub const ATTACKS: &[Attack] = &[
    attack("network: TCP", Python("socket.create_connection(('127.0.0.1', PORT), 5)"), FILTERED, ALONE),
    attack("network: TCP by the shell", Bash("exec 3<>/dev/tcp/127.0.0.1/$PORT"), FILTERED, ALONE),
    attack(
        "network: TCP with the first bytes",
        Python("s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', PORT))"),
        FILTERED,
        ALONE,
    ),
    attack("network: TCP of the newer kind", Python("socket.create_connection(('::1', PORT), 5)"), FILTERED, ALONE),
    attack("network: TCP elsewhere", Python("socket.create_connection(('192.0.2.1', 80), 5)"), FILTERED, NOWHERE),
    attack(
        "network: UDP",
        Python("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', UDP))"),
        FILTERED,
        Harmless,
    ),
    attack("network: UDP by the shell", Bash("echo x > /dev/udp/127.0.0.1/$UDP"), FILTERED, Harmless),
    attack(
        "network: UDP elsewhere",
        Python("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))"),
        FILTERED,
        NOWHERE,
    ),
    attack(
        "network: names",
        Python("socket.getaddrinfo('example.com', 80)"),
        Refused(&["name resolution", "not known"]),
        Refused(&["name resolution", "not known"]),
    ),
    attack("network: a server", Python("socket.create_server(('0.0.0.0', 0))"), FILTERED, Harmless),
    attack(
        "network: a local socket",
        Python("socket.socket(socket.AF_UNIX).connect(OUT + '/socket')"),
        FILTERED,
        Refused(&[NO_FILE]),
    ),
    attack(
        "network: a local socket without connecting",
        Python("socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', OUT + '/socket')"),
        FILTERED,
        Refused(&[NO_FILE]),
    ),
    attack(
        "network: an abstract local socket",
        Python("socket.socket(socket.AF_UNIX).connect('\\0' + NAME)"),
        FILTERED,
        ALONE,
    ),
    attack(
        "network: a pair, connected to another",
        Python("a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', '\\0' + NAME)"),
        Harmless,
        Harmless,
    ),
    attack(
        "network: a container engine",
        Python("socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')"),
        FILTERED,
        Refused(&[NO_FILE]),
    ),
    attack(
        "network: routes",
        Python("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 0))"),
        FILTERED,
        Harmless,
    ),
    attack("network: packets", Python("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"), FILTERED, FILTERED),
    attack(
        "network: raw",
        Python("socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)"),
        FILTERED,
        FILTERED,
    ),
    attack(
        "network: echo requests",
        Python("socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).sendto(b'x', ('192.0.2.1', 0))"),
        FILTERED,
        Refused(&[ACCESS, PERM, UNREACHABLE]),
    ),
    attack(
        "network: the host of a virtual machine",
        Python("socket.socket(40, socket.SOCK_STREAM).connect((2, 22))"),
        FILTERED,
        FILTERED,
    ),
    attack("network: the kernel's ciphers", Python("socket.socket(38, socket.SOCK_SEQPACKET)"), FILTERED, FILTERED),
    attack("network: radio", Python("socket.socket(31, socket.SOCK_RAW)"), FILTERED, FILTERED),
    attack(
        "network: past the filter",
        Python("call(425, 425, 4, ctypes.create_string_buffer(256))"),
        FILTERED,
        FILTERED,
    ),
];
