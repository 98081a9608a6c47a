//! Where sessions are kept.

use std::ffi::OsString;
use std::path::PathBuf;

use super::stop::Stop;

/// `--data-dir`, else `PLAYHOUSE_HOME`, else the platform's data directory.
pub fn data_dir(flag: Option<PathBuf>) -> Result<PathBuf, Stop> {
    choose(flag, cfg!(target_os = "macos"), |name| std::env::var_os(name)).ok_or_else(|| {
        Stop::Refused("there is no HOME to keep sessions under: give --data-dir or set PLAYHOUSE_HOME".to_owned())
    })
}

fn choose(flag: Option<PathBuf>, is_mac: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(given) = flag.or_else(|| set("PLAYHOUSE_HOME")) {
        return Some(given);
    }
    if is_mac {
        return Some(set("HOME")?.join("Library/Application Support/playhouse"));
    }
    // The base directory specification has relative paths ignored.
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(set("HOME")?.join(".local/share")));
    Some(data?.join("playhouse"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_then_the_variable_then_the_platform() {
        let all = |name: &str| match name {
            "PLAYHOUSE_HOME" => Some("/p".into()),
            "XDG_DATA_HOME" => Some("/x".into()),
            "HOME" => Some("/h".into()),
            _ => None,
        };
        let some =
            |have: &'static [&'static str]| move |name: &str| if have.contains(&name) { all(name) } else { None };
        assert_eq!(choose(Some("/f".into()), false, all), Some("/f".into()));
        assert_eq!(choose(None, false, all), Some("/p".into()));
        assert_eq!(choose(None, false, some(&["XDG_DATA_HOME", "HOME"])), Some("/x/playhouse".into()));
        assert_eq!(choose(None, false, some(&["HOME"])), Some("/h/.local/share/playhouse".into()));
        assert_eq!(choose(None, true, some(&["HOME"])), Some("/h/Library/Application Support/playhouse".into()));
        assert_eq!(choose(None, false, some(&[])), None);
        let empty = |name: &str| if name == "PLAYHOUSE_HOME" { Some("".into()) } else { all(name) };
        assert_eq!(choose(None, false, empty), Some("/x/playhouse".into()));
    }
}
