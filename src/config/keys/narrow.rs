//! What a project's file gets of what it asks for: never more than the user allows.

use crate::config::sections::model_name::ModelName;
use playhouse_protocol::PermissionMode;

/// What becomes of a wish.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Narrowed<T> {
    /// The project gets what it asks for.
    Granted(T),
    /// Only this much of it is; `None` is nothing.
    Less(Option<T>),
    /// It is a mistake, for this reason.
    Refused(&'static str),
}

/// A limit may be lowered; `None` is no limit.
pub(crate) fn lower<T: PartialOrd + Copy>(now: &Option<T>, wanted: Option<T>) -> Narrowed<Option<T>> {
    match (now, wanted) {
        (None, wanted) => Narrowed::Granted(wanted),
        (Some(now), Some(wanted)) if wanted <= *now => Narrowed::Granted(Some(wanted)),
        (Some(_), _) => Narrowed::Less(None),
    }
}

/// Tools may be taken away.
pub(crate) fn fewer(now: &[String], wanted: Vec<String>) -> Narrowed<Vec<String>> {
    let all = wanted.len();
    let granted: Vec<String> = wanted.into_iter().filter(|name| now.contains(name)).collect();
    if granted.len() == all { Narrowed::Granted(granted) } else { Narrowed::Less(Some(granted)) }
}

/// More may be asked about.
pub(crate) fn stricter(now: &PermissionMode, wanted: PermissionMode) -> Narrowed<PermissionMode> {
    match wanted {
        PermissionMode::Yolo => Narrowed::Refused("whether tools run without asking is the user's to say"),
        PermissionMode::Strict | PermissionMode::Ask | PermissionMode::AutoSafe if wanted <= *now => {
            Narrowed::Granted(wanted)
        }
        PermissionMode::Strict | PermissionMode::Ask | PermissionMode::AutoSafe => Narrowed::Less(None),
    }
}

/// Rules that make it stricter may be added.
pub(crate) fn more(now: &[String], wanted: Vec<String>) -> Narrowed<Vec<String>> {
    let new = wanted.into_iter().filter(|rule| !now.contains(rule));
    Narrowed::Granted(now.iter().cloned().chain(new.collect::<Vec<_>>()).collect())
}

/// Whose models a project's file may name when the user names none.
const UNNAMED: &str = "openai";

/// Other models of the user's providers may answer; no script, which would be commands from the project.
pub(crate) fn same_providers(now: &[ModelName], wanted: Vec<ModelName>) -> Narrowed<Vec<ModelName>> {
    let is_script = |name: &ModelName| matches!(name, ModelName::Scripted(_));
    if wanted.iter().any(is_script) {
        return Narrowed::Refused("a script says which tools run");
    }
    let is_users = |name: &ModelName| match provider(name) {
        Some(wanted) if now.is_empty() => wanted == UNNAMED,
        wanted => now.iter().any(|users| provider(users).is_some() && provider(users) == wanted),
    };
    let all = wanted.len();
    let granted: Vec<ModelName> = wanted.into_iter().filter(is_users).collect();
    match granted.len() {
        n if n == all => Narrowed::Granted(granted),
        0 => Narrowed::Less(None),
        _ => Narrowed::Less(Some(granted)),
    }
}

fn provider(name: &ModelName) -> Option<&'static str> {
    match name {
        ModelName::Served { provider, .. } => Some(provider),
        ModelName::Scripted(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_only_lowered() {
        assert_eq!(lower(&Some(50), Some(7)), Narrowed::Granted(Some(7)));
        assert_eq!(lower(&Some(50), Some(50)), Narrowed::Granted(Some(50)));
        assert_eq!(lower(&Some(50), Some(51)), Narrowed::Less(None));
        assert_eq!(lower(&Some(50), None), Narrowed::Less(None));
        assert_eq!(lower(&None, Some(51)), Narrowed::Granted(Some(51)));
        assert_eq!(lower::<u32>(&None, None), Narrowed::Granted(None));
    }

    #[test]
    fn tools_are_only_taken_away() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let now = names(&["read_file", "bash"]);
        assert_eq!(fewer(&now, names(&["bash"])), Narrowed::Granted(names(&["bash"])));
        assert_eq!(fewer(&now, names(&[])), Narrowed::Granted(names(&[])));
        let more = names(&["sub_agent", "bash"]);
        assert_eq!(fewer(&now, more), Narrowed::Less(Some(names(&["bash"]))));
        assert_eq!(fewer(&now, names(&["sub_agent"])), Narrowed::Less(Some(names(&[]))));
    }

    #[test]
    fn models_stay_with_the_users_providers_and_a_script_is_refused() {
        let chain = |names: &str| ModelName::parse_chain(names).unwrap();
        let asked = |now: &[ModelName], names: &str| same_providers(now, chain(names));
        let granted = |names: &str| Narrowed::Granted(chain(names));
        let one = chain("openai/one");
        assert_eq!(asked(&one, "openai/two"), granted("openai/two"));
        assert_eq!(asked(&one, "openai/two,openai/three"), granted("openai/two,openai/three"));
        assert_eq!(asked(&one, "anthropic/two"), Narrowed::Less(None));
        assert_eq!(asked(&one, "openai-responses/two"), Narrowed::Less(None));
        assert_eq!(asked(&one, "groq/x,openai/two"), Narrowed::Less(Some(chain("openai/two"))));
        let both = chain("openai/one,anthropic/one");
        assert_eq!(asked(&both, "anthropic/two,openai/two"), granted("anthropic/two,openai/two"));
        // Who names nobody has chosen no service: a project chooses none for them but the usual one.
        assert_eq!(asked(&[], "openai/two"), granted("openai/two"));
        assert_eq!(asked(&[], "openrouter/two"), Narrowed::Less(None));
        assert_eq!(asked(&[], "ollama/two,openai/two"), Narrowed::Less(Some(chain("openai/two"))));
        assert_eq!(asked(&chain("scripted/s.json"), "openai/two"), Narrowed::Less(None));
        for (now, wanted) in [("openai/one", "scripted/s.json"), ("scripted/s.json", "openai/a,scripted/s.json")] {
            let refused = asked(&chain(now), wanted);
            assert!(matches!(refused, Narrowed::Refused(_)), "{refused:?}");
        }
    }

    #[test]
    fn permission_is_only_made_stricter() {
        assert_eq!(stricter(&PermissionMode::Yolo, PermissionMode::Ask), Narrowed::Granted(PermissionMode::Ask));
        for now in [PermissionMode::Ask, PermissionMode::Yolo] {
            assert!(matches!(stricter(&now, PermissionMode::Yolo), Narrowed::Refused(_)));
        }
    }
}
