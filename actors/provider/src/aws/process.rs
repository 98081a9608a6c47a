//! A `credential_process`: a program of the user's that writes credentials.

use std::process::Stdio;
use std::time::Duration;

use playhouse_protocol::ProviderError;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::Keys;
use crate::provider::excerpt;

/// How long it may take.
const WAIT: Duration = Duration::from_secs(60);
/// How much of what it writes is read.
const CAP: u64 = 64 << 10;

/// Runs the program and reads what it writes. It is killed when its time is over, or nobody waits any more.
pub(super) async fn credentials(command: &str, wait: Option<Duration>) -> Result<Keys, ProviderError> {
    let failed = |message: String| ProviderError::Other { message: format!("the credential_process {message}") };
    let words = words(command).ok_or_else(|| failed("has a quote that does not end".to_owned()))?;
    let Some((program, arguments)) = words.split_first() else { return Err(failed("is empty".to_owned())) };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(format!("`{program}` cannot be started: {error}")))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let run = async {
        let (out, err) = tokio::join!(start(out), start(err));
        (child.wait().await, out, err)
    };
    let wait = wait.unwrap_or(WAIT);
    let (status, out, err) = tokio::time::timeout(wait, run)
        .await
        .map_err(|_| failed(format!("`{program}` took longer than {} s and was stopped", wait.as_secs_f64())))?;
    let status = status.map_err(|error| failed(format!("`{program}` was lost: {error}")))?;
    if !status.success() {
        return Err(failed(format!("`{program}` failed ({status}): {}", excerpt(&err, 300))));
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Versioned {
        version: u32,
    }
    match serde_json::from_str::<Versioned>(&out) {
        Ok(Versioned { version: 1 }) => Keys::issued(&out, "the credential_process"),
        Ok(Versioned { version }) => Err(failed(format!("`{program}` wrote version {version}; only 1 is known"))),
        Err(_) => Err(failed(format!("`{program}` wrote no JSON with a Version"))),
    }
}

async fn start(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What cannot be read is as if not written: the JSON then does not parse.
        let _ = pipe.take(CAP).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A command's words, split as a shell would: quotes and backslashes, and nothing else.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        end if end == c => break,
                        '\\' if c == '"' => word.push(chars.next()?),
                        other => word.push(other),
                    }
                }
            }
            '\\' if cfg!(unix) => word.get_or_insert_default().push(chars.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_would() {
        let split = |text: &str| words(text).unwrap();
        assert_eq!(split("/bin/get --for  me"), ["/bin/get", "--for", "me"]);
        assert_eq!(split(r#""/my tools/get" 'a "b"' c\ d "" "e\"f""#), ["/my tools/get", "a \"b\"", "c d", "", "e\"f"]);
        assert_eq!(words("get 'a"), None);
        assert!(split("  ").is_empty());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_program_gives_credentials_or_says_why_not() {
        let json = r#"{"Version":1,"AccessKeyId":"ASIAPROC","SecretAccessKey":"s3cret","SessionToken":"tok",
            "Expiration":"2030-01-02T03:04:05Z"}"#;
        let keys = credentials(&format!("sh -c 'echo \"$0\"' '{json}'"), None).await.unwrap();
        assert_eq!(keys.access_key_id, "ASIAPROC");
        assert_eq!((keys.secret.expose(), keys.session_token.as_ref().unwrap().expose()), ("s3cret", "tok"));
        assert_eq!(keys.expires, Some("2030-01-02T03:04:05Z".parse().unwrap()));
        for (command, says) in [
            ("sh -c 'echo no luck >&2; exit 3'", "no luck"),
            ("sh -c 'echo {}'", "no JSON with a Version"),
            ("sh -c 'echo \"{\\\"Version\\\":2}\"'", "version 2"),
            ("sh -c 'echo \"{\\\"Version\\\":1}\"'", "gave no credentials"),
            ("/no/such/program", "cannot be started"),
            ("", "is empty"),
        ] {
            let error = credentials(command, None).await.unwrap_err().to_string();
            assert!(error.contains(says), "{command}: {error}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_program_that_hangs_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let command = format!("sh -c 'echo $$ > \"$0\"; exec sleep 600' {}", pid.display());
        let error = credentials(&command, Some(Duration::from_secs(2))).await.unwrap_err().to_string();
        assert!(error.contains("took longer than 2 s"), "{error}");
        let pid = std::fs::read_to_string(pid).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        tokio::time::timeout(Duration::from_secs(30), async {
            // Gone, or a zombie that the runtime reaps in its own time.
            while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("the program lives on");
    }
}
