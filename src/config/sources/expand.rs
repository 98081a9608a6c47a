//! `${NAME}` in the strings of a file.

use playhouse_tools::is_secret;

use crate::config::problem::ExpandError;
use crate::config::sources::environment::Variables;

/// Whose variables a file may read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading<'a> {
    /// These: it is the user's file.
    Of(&'a Variables),
    /// None: it is a project's file.
    Nothing,
}

/// The text with `${NAME}` and `${NAME:-default}` replaced, and `$$` a dollar. What replaces is taken as it is.
pub(crate) fn expand(text: &str, reading: Reading<'_>) -> Result<String, ExpandError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(after) = after.strip_prefix('{') {
            let Some((inside, after)) = after.split_once('}') else {
                return Err(ExpandError::Unterminated(told(after)));
            };
            out.push_str(&value(inside, reading)?);
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn value(inside: &str, reading: Reading<'_>) -> Result<String, ExpandError> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(ExpandError::NoName(told(inside)));
    }
    let Reading::Of(variables) = reading else { return Err(ExpandError::ByProject) };
    if is_secret(name) {
        return Err(ExpandError::Secret(told(name)));
    }
    match (variables.get(name), default) {
        (Some(value), _) => value.to_str().map(str::to_owned).ok_or_else(|| ExpandError::NotText(told(name))),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(ExpandError::Unset(told(name))),
    }
}

fn told(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let own = |(name, value): (&str, &str)| (name.into(), value.into());
        let mut all: Vec<_> = [("A", "one"), ("B_2", "${A}$$"), ("EMPTY", ""), ("MY_TOKEN", "canary")].map(own).into();
        #[cfg(unix)]
        all.push(("RAW".into(), std::os::unix::ffi::OsStringExt::from_vec(vec![0xff])));
        all.into_iter().collect()
    }

    #[test]
    fn variables_are_replaced_once_and_dollars_can_be_written() {
        let cases = [
            ("", ""),
            ("plain", "plain"),
            ("${A}", "one"),
            ("-${A}-${A}-", "-one-one-"),
            ("${B_2}", "${A}$$"),
            ("${C:-two}", "two"),
            ("${A:-two}", "one"),
            ("${EMPTY:-filled}", "filled"),
            ("${C:-}", ""),
            ("${C:-$A:-x}", "$A:-x"),
            ("$$", "$"),
            ("$${A}", "${A}"),
            ("$$$${A}", "$${A}"),
            ("$5 and $ and $A", "$5 and $ and $A"),
            ("end $", "end $"),
            ("}é${A}é{", "}éoneé{"),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, Reading::Of(&variables())).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_replaced_is_named() {
        let own = str::to_owned;
        let mut cases = vec![
            ("${", ExpandError::Unterminated(own(""))),
            ("x ${A", ExpandError::Unterminated(own("A"))),
            ("${A:-", ExpandError::Unterminated(own("A:-"))),
            ("${}", ExpandError::NoName(own(""))),
            ("${ A }", ExpandError::NoName(own(" A "))),
            ("${1A}", ExpandError::NoName(own("1A"))),
            ("${:-x}", ExpandError::NoName(own(":-x"))),
            ("${${A}}", ExpandError::NoName(own("${A"))),
            ("${C}", ExpandError::Unset(own("C"))),
            ("${EMPTY}", ExpandError::Unset(own("EMPTY"))),
            ("${MY_TOKEN}", ExpandError::Secret(own("MY_TOKEN"))),
            ("${OPENAI_API_KEY:-x}", ExpandError::Secret(own("OPENAI_API_KEY"))),
        ];
        if cfg!(unix) {
            cases.push(("${RAW}", ExpandError::NotText(own("RAW"))));
        }
        for (text, expected) in cases {
            let error = expand(text, Reading::Of(&variables())).unwrap_err();
            assert!(!error.to_string().contains("canary"), "{error}");
            assert_eq!(error, expected, "{text}");
        }
        let long = format!("${{{}", "A".repeat(100_000));
        assert!(expand(&long, Reading::Of(&variables())).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn a_projects_file_reads_no_variable() {
        for text in ["${A}", "${A:-x}", "${MY_TOKEN}"] {
            assert_eq!(expand(text, Reading::Nothing), Err(ExpandError::ByProject), "{text}");
        }
        assert_eq!(expand("$${A} $", Reading::Nothing).as_deref(), Ok("${A} $"));
    }
}
