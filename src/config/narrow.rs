//! What a project's file gets of what it asks for: never more than the user allows.

use super::model::ModelName;
use playhouse_protocol::PermissionMode;

/// What becomes of a wish.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Narrowed<T> {
    /// It is granted.
    Granted(T),
    /// Only this much of it is; `None` is nothing.
    Less(Option<T>),
    /// It is a mistake, for this reason.
    Refused(&'static str),
}

/// A limit may be lowered; `None` is no limit.
pub(super) fn lower<T: PartialOrd + Copy>(now: &Option<T>, wanted: Option<T>) -> Narrowed<Option<T>> {
    match (now, wanted) {
        (None, wanted) => Narrowed::Granted(wanted),
        (Some(now), Some(wanted)) if wanted <= *now => Narrowed::Granted(Some(wanted)),
        (Some(_), _) => Narrowed::Less(None),
    }
}

/// Tools may be taken away.
pub(super) fn fewer(now: &[String], wanted: Vec<String>) -> Narrowed<Vec<String>> {
    let all = wanted.len();
    let granted: Vec<String> = wanted.into_iter().filter(|name| now.contains(name)).collect();
    if granted.len() == all { Narrowed::Granted(granted) } else { Narrowed::Less(Some(granted)) }
}

/// Asking may be turned on.
pub(super) fn stricter(_: &PermissionMode, wanted: PermissionMode) -> Narrowed<PermissionMode> {
    match wanted {
        PermissionMode::Ask => Narrowed::Granted(PermissionMode::Ask),
        PermissionMode::Yolo => Narrowed::Refused("whether tools run without asking is the user's to say"),
    }
}

/// Another model of the same provider may answer; no script, which would be commands from the project.
pub(super) fn same_provider(now: &Option<ModelName>, wanted: Option<ModelName>) -> Narrowed<Option<ModelName>> {
    match (now, &wanted) {
        (_, Some(ModelName::Scripted(_))) => Narrowed::Refused("a script says which tools run"),
        (Some(ModelName::Scripted(_)), _) => Narrowed::Less(None),
        (Some(ModelName::OpenAi(_)) | None, _) => Narrowed::Granted(wanted),
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
    fn a_model_stays_with_its_provider_and_a_script_is_refused() {
        let (one, two) = (ModelName::OpenAi("one".into()), ModelName::OpenAi("two".into()));
        let script = ModelName::Scripted("s.json".into());
        assert_eq!(same_provider(&None, Some(one.clone())), Narrowed::Granted(Some(one.clone())));
        assert_eq!(same_provider(&Some(one.clone()), Some(two.clone())), Narrowed::Granted(Some(two.clone())));
        assert_eq!(same_provider(&Some(script.clone()), Some(two)), Narrowed::Less(None));
        let refused = same_provider(&Some(one), Some(script));
        assert!(matches!(refused, Narrowed::Refused(_)), "{refused:?}");
    }

    #[test]
    fn permission_is_only_made_stricter() {
        assert_eq!(stricter(&PermissionMode::Yolo, PermissionMode::Ask), Narrowed::Granted(PermissionMode::Ask));
        for now in [PermissionMode::Ask, PermissionMode::Yolo] {
            assert!(matches!(stricter(&now, PermissionMode::Yolo), Narrowed::Refused(_)));
        }
    }
}
