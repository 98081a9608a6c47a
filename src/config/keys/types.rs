//! What each key takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::SignedDuration;
use playhouse_protocol::{
    CacheConfig, CacheStrategy, Durability, PermissionMode, ThinkingLevel, ToolExecutionStrategy,
};

use playhouse_tools::policy::Rule;

use crate::config::keys::shown::Shown;
use crate::config::keys::value::{Bad, Codec, Given};
use crate::config::sections::model_name::ModelName;
use crate::tool_names::{TOOLS, no_tool};

/// No limit, as a word.
const NONE: &str = "none";
/// What a TOML integer can hold.
const MOST: u64 = i64::MAX as u64;
/// A longer delay than a day is a slip.
const DAY_MS: u64 = 86_400_000;
/// A longer run than a year is a slip; no limit is `none`.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

pub(crate) const MODELS: Codec<Vec<ModelName>> = Codec {
    takes: "a model such as `openai/gpt-5` or `scripted/FILE`, or several in the order they are asked",
    read: |given, folder| {
        let names = match given {
            Given::List(names) if names.is_empty() => return Err(Bad::NotThis),
            Given::List(names) => names.iter().map(|name| ModelName::parse(name.trim())).collect::<Result<Vec<_>, _>>(),
            given => ModelName::parse_chain(&given.text()?),
        };
        let at_home = |name| match name {
            ModelName::Served { provider, id } => ModelName::Served { provider, id },
            ModelName::Scripted(file) => ModelName::Scripted(rooted(file, folder)),
        };
        Ok(names.map_err(Bad::Because)?.into_iter().map(at_home).collect())
    },
    show: |models| {
        let names: Vec<String> = models.iter().map(ToString::to_string).collect();
        match names.as_slice() {
            [] => Shown::Unset,
            // A file's name can look like two models.
            [name] if ModelName::parse_chain(name).is_ok_and(|chain| chain.len() == 1) => Shown::Text(name.clone()),
            _ => Shown::List(names),
        }
    },
};

pub(crate) const TEXT: Codec<Option<String>> =
    Codec { takes: "a string", read: |given, _| given.text().map(Some), show: |text| text_or_unset(text.clone()) };

pub(crate) const FILE: Codec<Option<PathBuf>> = Codec {
    takes: "a file",
    read: |given, folder| match given.text()? {
        path if path.is_empty() => Err(Bad::NotThis),
        path if path.starts_with("~/") => Err(Bad::Because("`~` is not replaced here: write ${HOME}".to_owned())),
        path => Ok(Some(rooted(path.into(), folder))),
    },
    show: |path| text_or_unset(path.as_ref().map(|path| path.display().to_string())),
};

pub(crate) const TOOL_NAMES: Codec<Vec<String>> = Codec {
    takes: "a list of `read_file`, `list_files`, `search`, `edit_file`, `write_file`, `bash`, `sub_agent`",
    read: |given, _| {
        let separated = matches!(given, Given::Plain(_));
        if separated && given.is(NONE) {
            return Ok(Vec::new());
        }
        let names = given.list()?;
        if separated && names.is_empty() {
            return Err(Bad::Because("no tool is named: give names separated by commas, or none".to_owned()));
        }
        let mut chosen: Vec<String> = Vec::new();
        for name in names {
            if !TOOLS.contains(&name.as_str()) {
                return Err(Bad::Because(no_tool(&name, &[])));
            }
            if !chosen.contains(&name) {
                chosen.push(name);
            }
        }
        Ok(chosen)
    },
    show: |names| Shown::List(names.clone()),
};

pub(crate) const PERMISSION: Codec<PermissionMode> = Codec {
    takes: "`strict`, `ask`, `auto-safe` or `yolo`",
    read: |given, _| {
        given.one_of(&[
            ("strict", PermissionMode::Strict),
            ("ask", PermissionMode::Ask),
            ("auto-safe", PermissionMode::AutoSafe),
            ("yolo", PermissionMode::Yolo),
        ])
    },
    show: |mode| {
        word(match mode {
            PermissionMode::Strict => "strict",
            PermissionMode::Ask => "ask",
            PermissionMode::AutoSafe => "auto-safe",
            PermissionMode::Yolo => "yolo",
        })
    },
};

pub(crate) const RULES: Codec<Vec<String>> = Codec {
    takes: "a list of rules such as `bash(git status)`, `bash(cargo test *)`, `write_file(src/**)` or `edit_file`",
    read: |given, _| {
        let rules = given.list()?;
        match rules.iter().map(|rule| Rule::parse(rule)).find_map(Result::err) {
            Some(error) => Err(Bad::Because(error.to_string())),
            None => Ok(rules),
        }
    },
    show: |rules| Shown::List(rules.clone()),
};

pub(crate) const DURABILITY: Codec<Durability> = Codec {
    takes: "`flush`, `os` or `none`",
    read: |given, _| given.one_of(&[("flush", Durability::Flush), ("os", Durability::Os), (NONE, Durability::None)]),
    show: |durability| {
        word(match durability {
            Durability::Flush => "flush",
            Durability::Os => "os",
            Durability::None => NONE,
        })
    },
};

pub(crate) const FOLDER: Codec<Option<PathBuf>> = Codec {
    takes: "a folder",
    read: |given, folder| {
        let path = match given {
            Given::Plain(path) => PathBuf::from(path),
            Given::Text(text) if text == "~" || text.starts_with("~/") => {
                return Err(Bad::Because("`~` is not replaced here: write ${HOME}".to_owned()));
            }
            Given::Text(text) => PathBuf::from(text),
            Given::Whole(_) | Given::Number(_) | Given::List(_) | Given::Other => return Err(Bad::NotThis),
        };
        if path.as_os_str().is_empty() {
            return Err(Bad::NotThis);
        }
        Ok(Some(rooted(path, folder)))
    },
    show: |path| text_or_unset(path.as_ref().map(|path| path.display().to_string())),
};

pub(crate) const THINKING: Codec<ThinkingLevel> = Codec {
    takes: "`off`, `minimal`, `low`, `medium` or `high`",
    read: |given, _| {
        const LEVELS: [ThinkingLevel; 5] = [
            ThinkingLevel::Off,
            ThinkingLevel::Minimal,
            ThinkingLevel::Low,
            ThinkingLevel::Medium,
            ThinkingLevel::High,
        ];
        given.one_of(&LEVELS.map(|level| (level.as_str(), level)))
    },
    show: |level| word(level.as_str()),
};

pub(crate) const TOKENS: Codec<Option<u32>> = Codec {
    takes: "a whole number from 1 to 4294967295",
    read: |given, _| small(given, 1).map(Some),
    show: |tokens| tokens.map_or(Shown::Unset, |tokens| Shown::Whole(tokens.into())),
};

pub(crate) const TEMPERATURE: Codec<Option<f32>> = Codec {
    takes: "a number from 0 to 2",
    read: |given, _| Ok(Some(given.number(0.0, 2.0)? as f32)),
    // By way of its text: 0.7 is to stay 0.7.
    show: |number| {
        let shown = number.map(|number| number.to_string().parse().unwrap_or(f64::from(number)));
        shown.map_or(Shown::Unset, Shown::Number)
    },
};

pub(crate) const TOOL_EXECUTION: Codec<ToolExecutionStrategy> = Codec {
    takes: "`parallel`, `sequential` or `batched:N`",
    read: |given, _| {
        let words = [("parallel", ToolExecutionStrategy::Parallel), ("sequential", ToolExecutionStrategy::Sequential)];
        given.one_of(&words).or_else(|_| {
            let text = given.text()?;
            let size = text.trim().strip_prefix("batched:").and_then(|size| size.parse().ok());
            let size = size.filter(|size| (1..=1_000).contains(size)).ok_or(Bad::NotThis)?;
            Ok(ToolExecutionStrategy::Batched { size })
        })
    },
    show: |strategy| match strategy {
        ToolExecutionStrategy::Parallel => word("parallel"),
        ToolExecutionStrategy::Sequential => word("sequential"),
        ToolExecutionStrategy::Batched { size } => Shown::Text(format!("batched:{size}")),
    },
};

pub(crate) const BASE_URL: Codec<Option<String>> = Codec {
    takes: "the base URL of a service, such as `https://api.openai.com/v1`",
    read: |given, _| {
        let url = given.text()?.trim().to_owned();
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let because = |why: &str| Err(Bad::Because(format!("this base URL cannot be used: {why}")));
        if host.contains('@') {
            return because("a user name or password in it would be written to the journal");
        }
        if url.contains(['?', '#']) {
            return because("it must not have a `?` or `#` part");
        }
        if host.is_empty() || url.chars().any(char::is_whitespace) {
            return because("it starts with http:// or https:// and names a host");
        }
        Ok(Some(url))
    },
    show: |url| text_or_unset(url.as_deref().map(harmless)),
};

/// What a service calls a region, a project or a version; it becomes part of an address.
pub(crate) const NAME: Codec<Option<String>> = Codec {
    takes: "a name of letters, digits, `-`, `_`, `.` and `:`",
    read: |given, _| {
        let name = given.text()?.trim().to_owned();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        let is_name = (1..=100).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.');
        if is_name { Ok(Some(name)) } else { Err(Bad::NotThis) }
    },
    show: |name| text_or_unset(name.clone()),
};

pub(crate) const CACHE: Codec<CacheConfig> = Codec {
    takes: "`auto` or `off`",
    read: |given, _| {
        let off = CacheConfig { enabled: false, strategy: CacheStrategy::Disabled };
        given.one_of(&[("auto", CacheConfig::default()), ("off", off)])
    },
    show: |cache| word(if cache.enabled { "auto" } else { "off" }),
};

pub(crate) const TURN_LIMIT: Codec<Option<u32>> = Codec {
    takes: "a whole number from 1 to 4294967295, or `none`",
    read: |given, _| if given.is(NONE) { Ok(None) } else { small(given, 1).map(Some) },
    show: |limit| limit.map_or(word(NONE), |limit| Shown::Whole(limit.into())),
};

pub(crate) const TOKEN_LIMIT: Codec<Option<u64>> = Codec {
    takes: "a whole number from 1, or `none`",
    read: |given, _| if given.is(NONE) { Ok(None) } else { given.whole(1, MOST).map(Some) },
    show: |limit| limit.map_or(word(NONE), Shown::Whole),
};

pub(crate) const TIME_LIMIT: Codec<Option<Duration>> = Codec {
    takes: "a time such as `90s` or `1h 30m`, at most `8760h`, or `none`",
    read: |given, _| {
        if given.is(NONE) {
            return Ok(None);
        }
        let time: SignedDuration = given.text()?.trim().parse().map_err(|_| Bad::NotThis)?;
        let time = Duration::try_from(time).map_err(|_| Bad::NotThis)?;
        if time.is_zero() || time > YEAR { Err(Bad::NotThis) } else { Ok(Some(time)) }
    },
    show: |limit| match limit.map(SignedDuration::try_from) {
        None => word(NONE),
        Some(Ok(time)) => Shown::Text(format!("{time:#}")),
        Some(Err(_)) => Shown::Unset,
    },
};

pub(crate) const COUNT: Codec<u32> = Codec {
    takes: "a whole number from 0 to 4294967295",
    read: |given, _| small(given, 0),
    show: |count| Shown::Whole((*count).into()),
};

pub(crate) const DELAY_MS: Codec<u64> = Codec {
    takes: "milliseconds, a whole number from 0 to 86400000",
    read: |given, _| given.whole(0, DAY_MS),
    show: |millis| Shown::Whole(*millis),
};

pub(crate) const TIMES: Codec<u32> = Codec {
    takes: "a whole number from 1 to 4294967295",
    read: |given, _| small(given, 1),
    show: |count| Shown::Whole((*count).into()),
};

pub(crate) const WAIT_MS: Codec<u64> = Codec {
    takes: "milliseconds, a whole number from 1 to 86400000",
    read: |given, _| given.whole(1, DAY_MS),
    show: |millis| Shown::Whole(*millis),
};

pub(crate) const WAIT_LIMIT_MS: Codec<Option<u64>> = Codec {
    takes: "milliseconds, a whole number from 1 to 86400000, or `none`",
    read: |given, _| if given.is(NONE) { Ok(None) } else { given.whole(1, DAY_MS).map(Some) },
    show: |limit| limit.map_or(word(NONE), Shown::Whole),
};

pub(crate) const GROWTH: Codec<f64> = Codec {
    takes: "a number from 1 to 1000",
    read: |given, _| given.number(1.0, 1_000.0),
    show: |number| Shown::Number(*number),
};

fn word(word: &str) -> Shown {
    Shown::Text(word.to_owned())
}

fn text_or_unset(text: Option<String>) -> Shown {
    text.map_or(Shown::Unset, Shown::Text)
}

fn small(given: Given, least: u32) -> Result<u32, Bad> {
    let number = given.whole(least.into(), u32::MAX.into())?;
    u32::try_from(number).map_err(|_| Bad::NotThis)
}

/// The path seen from the folder, where there is one.
pub(crate) fn rooted(path: PathBuf, folder: Option<&Path>) -> PathBuf {
    match folder {
        Some(folder) => {
            let joined = folder.join(&path);
            std::path::absolute(&joined).unwrap_or(joined)
        }
        None => path,
    }
}

/// The URL without the parts that can hold a secret.
fn harmless(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let plain = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = plain.split_once('/').map_or((plain, ""), |(host, path)| (host, path));
    match host.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}/{path}"),
        None if plain.len() < rest.len() => format!("{scheme}://{plain}…"),
        None => url.to_owned(),
    }
}
