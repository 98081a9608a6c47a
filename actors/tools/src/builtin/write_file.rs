//! `write_file`: makes a file, or replaces one that the agent has read.

use std::fs::File;

use async_trait::async_trait;
use playhouse_protocol::{Cancel, EffectClass, Level, SessionId, Subject, ToolContext, ToolError, ToolResult};
use serde_json::{Value, json};

use crate::files::claims::{Attempt, Turn, in_turn};
use crate::files::paths::{Root, Spot, open_if_there};
use crate::files::replace::{Old, changed, let_go, replace};
use crate::files::versions::Version;
use crate::files::{AskedPath, Use, path_of, text};
use crate::run::blocking;
use crate::runtime::ToolRuntime;
use crate::secrets::refuse_placeholders;
use crate::summary::CallSummary;
use crate::tool::Tool;

/// The most text that is written at once.
const MAX_TEXT: usize = 1_000_000;

/// `write_file`: makes a file, or replaces one that the agent has read.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteFile;

#[async_trait]
impl Tool for WriteFile {
    fn name(&self) -> &str {
        "write_file"
    }

    fn label(&self) -> &str {
        "Write file"
    }

    fn description(&self) -> &str {
        "Writes a text file of up to 1 MB, all of it; missing directories are made. A file that exists is replaced only \
         if you have read it and it has not changed since. To change parts of a file use edit_file."
    }

    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "description": "The file, in the working directory."},
                "content": {"type": "string", "description": "All of its text."}
            },
            "required": ["path", "content"],
            "additionalProperties": false
        })
    }

    /// What the agent has read is forgotten in a crash, so a repetition could not be checked against it.
    fn effect(&self, _args: &Value) -> EffectClass {
        EffectClass::Once
    }

    fn needs_permission(&self, _args: &Value) -> Option<String> {
        Some("write a file".to_owned())
    }

    fn level(&self, _args: &Value) -> Level {
        Level::Write
    }

    fn subject(&self, args: &Value) -> Subject {
        path_of(args)
    }

    fn summary(&self, args: &Value, result: Option<&ToolResult>) -> CallSummary {
        CallSummary::of(args).counting(result, "bytes", "bytes")
    }

    /// Whether the place can be written, and what is there is known; makes neither file nor folder.
    async fn check(&self, args: &Value, ctx: &ToolContext) -> Result<(), ToolError> {
        let (asked, session) = (AskedPath::new(args, None, ctx)?, ctx.session_id.clone());
        content(args)?;
        blocking(&ctx.cancel, move |_| {
            let root = Root::open(&asked)?;
            let spot = match root.spot_to_write() {
                // Its folder is missing, and would be made.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return root.may_make_folders().map_err(|error| failed(&asked, &error));
                }
                spot => spot.map_err(|error| failed(&asked, &error))?,
            };
            let file = spot.key().map_err(|error| failed(&asked, &error))?;
            let known = ToolRuntime::here().files.versions.remembered(&session, &file);
            known_file(&asked, &spot, known)?;
            Ok(())
        })
        .await
    }

    async fn execute(&self, args: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let asked = AskedPath::new(&args, None, &ctx)?;
        let content = content(&args)?.to_owned();
        let session = ctx.session_id.clone();
        let shown = asked.shown.clone();
        in_turn(&ctx, &shown, move |turn, cancel| write(&asked, content.as_bytes(), &session, turn, cancel)).await
    }
}

/// The text to write, if it can be.
fn content(args: &Value) -> Result<&str, ToolError> {
    let content = text(args, "content");
    if content.len() > MAX_TEXT {
        let text = format!("{} bytes are more than 1 MB; write less, then add to it with edit_file", content.len());
        return Err(ToolError::InvalidArgs(text));
    }
    refuse_placeholders(content, "")?;
    Ok(content)
}

fn failed(asked: &AskedPath, error: &std::io::Error) -> ToolError {
    match error.kind() {
        std::io::ErrorKind::IsADirectory => asked.is_directory(),
        _ => asked.unusable(Use::Write, error),
    }
}

/// The file that is there, if one is: it must be as the agent knows it.
fn known_file(asked: &AskedPath, spot: &Spot, known: Option<Version>) -> Result<Option<File>, ToolError> {
    let Some(mut old) = open_if_there(asked, spot, Use::Write)? else { return Ok(None) };
    let Some(known) = known else {
        let text = format!("`{}` exists and you have not read it; read it first", asked.shown);
        return Err(ToolError::Failed(text));
    };
    if !known.is_that_of(&mut old).map_err(|error| failed(asked, &error))? {
        return Err(changed(asked));
    }
    Ok(Some(old))
}

fn write(
    asked: &AskedPath,
    content: &[u8],
    session: &SessionId,
    turn: Turn,
    cancel: &Cancel,
) -> Result<Attempt<ToolResult>, ToolError> {
    let failed = |error: std::io::Error| failed(asked, &error);
    let root = Root::open(asked)?;
    let (spot, folders) = match root.spot_to_write() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = root.make_folders().map_err(failed)?;
            (root.spot_to_write(), Some(made))
        }
        spot => (spot, None),
    };
    let spot = spot.map_err(failed)?;
    let file = spot.key().map_err(failed)?;
    let Some(claim) = turn.take(&file) else { return Ok(Attempt::Taken(file)) };
    let made = match known_file(asked, &spot, claim.files.versions.remembered(session, &file))? {
        None => {
            replace(asked, &spot, Old::Nothing, content, &claim, cancel)?;
            if let Some(folders) = folders {
                folders.keep();
            }
            true
        }
        Some(old) => {
            replace(asked, &spot, Old::File(&old), content, &claim, cancel)?;
            let_go(old, &claim.files);
            false
        }
    };
    let version = Version::of(content);
    let details = json!({"bytes": content.len(), "created": made, "version": version.to_string()});
    claim.files.versions.remember(session, &file, version);
    let done = if made { "created" } else { "replaced" };
    let text = format!("{done} `{}`: {} bytes", asked.shown, content.len());
    Ok(Attempt::Done(ToolResult { details, ..ToolResult::text(text) }))
}
