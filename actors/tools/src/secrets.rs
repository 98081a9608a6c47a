//! Secrets in what tools handle: those to take out before a text is cut or kept in a file, and the placeholders that
//! must not end up in one.

use playhouse_protocol::secrets::placeholders;
use playhouse_protocol::{Secrets, ToolError};

use crate::runtime::SCOPE;

/// The secrets that the house knows, where a tool is running; none elsewhere.
///
/// What a tool returns is cleaned in any case. A tool needs this for what it keeps in other places, and for a text that
/// it cuts: half a secret is not found any more. Known to the tool's future, not to tasks and threads it starts.
pub fn secrets_here() -> Secrets {
    SCOPE.try_with(|scope| scope.secrets.clone()).unwrap_or_default()
}

/// Refuses a text for a file that holds a placeholder which `there`, the text in its place now, does not.
pub(crate) fn refuse_placeholders(text: &str, there: &str) -> Result<(), ToolError> {
    match placeholders(text).find(|found| !there.contains(found)) {
        None => Ok(()),
        Some(found) => Err(ToolError::Failed(format!(
            "nothing was written: `{found}` stands for a secret that you are not shown and that belongs in no file; \
             have the program read it from the environment by its name, or leave those lines as they are"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f52_a_placeholder_is_refused_unless_it_was_there() {
        assert_eq!(refuse_placeholders("key = env(\"A_KEY\") # [secret:]", ""), Ok(()));
        assert_eq!(refuse_placeholders("x [secret:A_KEY]", "[secret:A_KEY] y"), Ok(()));
        let refused = refuse_placeholders("[secret:A_KEY] [secret:B_KEY]", "[secret:A_KEY]").unwrap_err().to_string();
        assert!(refused.contains("`[secret:B_KEY]`") && refused.contains("environment"), "{refused}");
    }

    #[test]
    fn outside_a_tool_nothing_is_known() {
        assert!(secrets_here().is_empty());
    }
}
