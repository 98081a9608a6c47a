//! What `strace` saw of programs being started.

use std::collections::HashMap;

/// One successful or failed start of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub path: String,
    /// The first 32 at most: `strace` leaves out the rest.
    pub argv: Vec<String>,
    pub has_succeeded: bool,
}

/// Reads what `strace -f -xx -e trace=execve,execveat` wrote, in the order of the calls' ends.
pub fn read(text: &str) -> Vec<Start> {
    whole(text).iter().filter(|call| call.starts_with("exec")).map(|call| start(call)).collect()
}

/// The calls in a trace, one that was interrupted by others put together again.
fn whole(text: &str) -> Vec<String> {
    let mut begun: HashMap<&str, String> = HashMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(first) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(pid, first.to_owned());
        } else if let Some((_, end)) = rest.strip_prefix("<... ").and_then(|rest| rest.split_once("resumed>")) {
            calls.push(begun.remove(pid).unwrap_or_default() + end);
        } else {
            calls.push(rest.to_owned());
        }
    }
    calls
}

fn start(call: &str) -> Start {
    let (call, result) = call.rsplit_once(" = ").unwrap_or((call, "?"));
    let (path, argv) = call.split_once(", [").unwrap_or((call, ""));
    let argv = argv.split(']').next().unwrap_or_default();
    Start {
        path: strings(path).into_iter().next().unwrap_or_default(),
        argv: strings(argv),
        has_succeeded: result.trim() == "0",
    }
}

/// The strings in a text, each byte of them written as `\x..`.
fn strings(text: &str) -> Vec<String> {
    let quoted = text.split('"').skip(1).step_by(2);
    let decode = |hex: &str| {
        let bytes = hex.split("\\x").skip(1).map(|byte| u8::from_str_radix(byte, 16).expect("a byte"));
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    };
    quoted.map(decode).collect()
}

/// Which calls [`calls`] is to see: all that start a program, change a file or talk to somebody.
pub const WATCHED: &str = "trace=execve,execveat,open,openat,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,\
    rmdir,link,linkat,symlink,symlinkat,truncate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,utime,utimes,utimensat,\
    futimesat,setxattr,lsetxattr,fsetxattr,removexattr,mknod,mknodat,mount,bind,chdir";

/// One call, whatever came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    /// The strings among its arguments, those of lists too, but for the environment.
    pub strings: Vec<String>,
    pub has_succeeded: bool,
    /// As `strace` wrote it, strings spelled out.
    pub text: String,
}

/// Reads what `strace -f -xx` wrote, in the order of the calls' ends.
pub fn calls(text: &str) -> Vec<Call> {
    let call = |whole: &String| {
        let (name, _) = whole.split_once('(')?;
        let (arguments, result) = whole.rsplit_once(" = ").unwrap_or((whole, "?"));
        let strings = strings(arguments);
        let text = format!("{name} {strings:?} {}", arguments.rsplit(", ").next().unwrap_or_default());
        let flags: String = arguments.split('"').step_by(2).collect();
        Some(Call {
            name: name.to_owned(),
            strings,
            has_succeeded: !result.trim().starts_with('-') && !result.trim().starts_with('?'),
            text: format!("{text} {flags}"),
        })
    };
    whole(text).iter().filter_map(call).collect()
}
