//! System calls that are refused whoever makes them and whatever for, each by its number.

use serde_json::json;

use super::Must::Refused;
use super::world::{World, python};
use super::{PERM, Seen};
use crate::common::{Bench, text};

/// The name, and the number on x86-64 and on aarch64; `None` where there is no such call.
const CALLS: [(&str, Option<u32>, Option<u32>); 52] = [
    ("ptrace", Some(101), Some(117)),
    ("process_vm_readv", Some(310), Some(270)),
    ("process_vm_writev", Some(311), Some(271)),
    ("process_madvise", Some(440), Some(440)),
    ("pidfd_getfd", Some(438), Some(438)),
    ("kcmp", Some(312), Some(272)),
    ("io_uring_setup", Some(425), Some(425)),
    ("io_uring_enter", Some(426), Some(426)),
    ("io_uring_register", Some(427), Some(427)),
    ("add_key", Some(248), Some(217)),
    ("request_key", Some(249), Some(218)),
    ("keyctl", Some(250), Some(219)),
    ("bpf", Some(321), Some(280)),
    ("perf_event_open", Some(298), Some(241)),
    ("userfaultfd", Some(323), Some(282)),
    ("fanotify_init", Some(300), Some(262)),
    ("mount", Some(165), Some(40)),
    ("umount2", Some(166), Some(39)),
    ("pivot_root", Some(155), Some(41)),
    ("chroot", Some(161), Some(51)),
    ("setns", Some(308), Some(268)),
    ("open_tree", Some(428), Some(428)),
    ("move_mount", Some(429), Some(429)),
    ("fsopen", Some(430), Some(430)),
    ("fsconfig", Some(431), Some(431)),
    ("fsmount", Some(432), Some(432)),
    ("fspick", Some(433), Some(433)),
    ("mount_setattr", Some(442), Some(442)),
    ("open_by_handle_at", Some(304), Some(265)),
    ("kexec_load", Some(246), Some(104)),
    ("kexec_file_load", Some(320), Some(294)),
    ("init_module", Some(175), Some(105)),
    ("finit_module", Some(313), Some(273)),
    ("delete_module", Some(176), Some(106)),
    ("reboot", Some(169), Some(142)),
    ("swapon", Some(167), Some(224)),
    ("swapoff", Some(168), Some(225)),
    ("acct", Some(163), Some(89)),
    ("quotactl", Some(179), Some(60)),
    ("sethostname", Some(170), Some(161)),
    ("setdomainname", Some(171), Some(162)),
    ("settimeofday", Some(164), Some(170)),
    ("clock_settime", Some(227), Some(112)),
    ("clock_adjtime", Some(305), Some(266)),
    ("adjtimex", Some(159), Some(171)),
    ("syslog", Some(103), Some(116)),
    ("vhangup", Some(153), Some(58)),
    ("lookup_dcookie", Some(212), Some(18)),
    ("iopl", Some(172), None),
    ("ioperm", Some(173), None),
    ("uselib", Some(134), None),
    ("modify_ldt", Some(154), None),
];

/// Makes all of them in one process, with arguments that the kernel itself would answer with another error or with
/// none.
pub async fn refused(bench: &mut Bench, world: &mut World) -> Vec<Seen> {
    let is_x86 = cfg!(target_arch = "x86_64");
    let numbers = CALLS.iter().filter_map(|(name, x86, aarch64)| Some((*name, if is_x86 { *x86 } else { *aarch64 }?)));
    let numbers: Vec<_> = numbers.collect();
    let list: String = numbers.iter().map(|(name, number)| format!("('{name}', {number}), ")).collect();
    let script = format!(
        "for name, number in ({list}):\n\
         \x20   try: print(name, call(number, number, 0, 0, 0, 0, 0, 0))\n\
         \x20   except OSError as error: print(name, error.strerror)"
    );
    let command = format!("{}\n{}", world.variables("0"), python(&script));
    let answer = bench.run("bash", json!({"command": command, "timeout_ms": 30_000})).await;
    let said = text(&answer);
    let seen = numbers.iter().map(|(name, _)| {
        let got = said.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap_or("nothing");
        let mut seen = Seen::new(&format!("calls: {name}"), Refused(&[PERM]), got);
        if got != PERM {
            seen.faults.push(format!("is not refused as it must be, but gives {got:?}"));
        }
        seen
    });
    let mut seen: Vec<Seen> = seen.collect();
    let changes = world.changes();
    if let Some(last) = seen.last_mut() {
        last.faults.extend(changes);
    }
    seen
}
