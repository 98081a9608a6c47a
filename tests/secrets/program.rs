//! The program, with a secret in its environment.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Desk, Done, finish};
use crate::{SECRET, everything, is_clean};

fn run(desk: &Desk, args: &[&str], variables: &[(&str, &str)]) -> Done {
    let mut command = desk.command(args);
    command.env("DEPLOY_TOKEN", SECRET).envs(variables.iter().copied());
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Two runs that each show the secret.
fn cat_twice() -> Value {
    let call = json!({"tool_calls": [{"name": "bash", "arguments": {"command": "cat leak.txt"}}]});
    json!([call, {"text": "done"}, call, {"text": "done again"}])
}

#[test]
fn f52_a_secret_of_the_environment_has_one_name_in_every_process() {
    let desk = Desk::new();
    desk.write("leak.txt", &format!("leak:{SECRET}\n"));
    let script = desk.script("script.json", cat_twice());
    let prompt = format!("prompt:{SECRET}");
    let flags = ["--permission", "yolo", "--tools", "bash", "--json"];
    let first = run(&desk, &[&["run", "--script", &script, &prompt][..], &flags[..]].concat(), &[]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let session = desk.session();
    let second =
        run(&desk, &[&["run", "--session", &session, "--script", &script, &prompt][..], &flags[..]].concat(), &[]);
    assert_eq!(second.code, Some(0), "{second:?}");
    // Whoever looks later need not know the secret.
    let shown = desk.run(&["sessions", "show", &session]);
    let listed = desk.run(&["sessions", "list"]);
    let entries: String = desk.entries(&session).iter().map(Value::to_string).collect();
    let sinks = [
        ("events", &first.out, 2),
        ("events", &second.out, 2),
        ("errors", &first.err, 0),
        ("shown", &shown.out, 4),
        ("entries", &entries, 4),
        ("listed", &listed.out, 1),
        ("files", &everything(&desk.data()), 4),
    ];
    for (what, text, least) in sinks {
        is_clean(what, text);
        let found = text.matches(":[secret:DEPLOY_TOKEN]").count();
        assert!(found >= least, "{what}: {found} of {least} in {text}");
    }
}

#[test]
fn f52_our_own_settings_are_no_secrets() {
    let desk = Desk::new();
    let script = desk.script("script.json", json!([{"text": "done"}]));
    let variables = [("PLAYHOUSE_LIMITS_MAX_TOTAL_TOKENS", "12345678901")];
    let done = run(&desk, &["run", "--script", &script, "count to 12345678901", "--json"], &variables);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("count to 12345678901"), "{done:?}");
}

/// A service that fails twice, and shows what looks like a key.
fn failing(shape: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let body = json!({"error": {"message": format!("no room for {shape} and {SECRET}")}}).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let mut head = Vec::new();
            let mut piece = [0; 4096];
            // The whole request, so that closing does not reset the connection.
            while !is_whole(&head) {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => head.extend_from_slice(&piece[..count]),
                }
            }
            let _ = write!(
                stream,
                "HTTP/1.1 500 Oops\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    base
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    body.len() >= length.unwrap_or_default()
}

#[test]
fn f52_what_looks_like_a_key_is_masked_in_logs_and_errors_and_nowhere_else() {
    let desk = Desk::new();
    let shape = format!("sk-other-{}", "a1b2c3d4e5f6g7h8i9");
    let base = failing(&shape);
    let log = desk.work().join("house.log");
    let args = ["run", "--model", "openai/m", "--base-url", &base, "--log", log.to_str().unwrap(), "hi"];
    let variables = [
        ("OPENAI_API_KEY", "sk-canary-0123456789"),
        ("PLAYHOUSE_RETRY_MAX_RETRIES", "1"),
        ("PLAYHOUSE_RETRY_INITIAL_DELAY_MS", "1"),
    ];
    let done = run(&desk, &args, &variables);
    assert_eq!(done.code, Some(1), "{done:?}");
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("retrying") && logged.contains("no room for **** and [secret:DEPLOY_TOKEN]"), "{logged}");
    assert!(logged.lines().all(|line| line.contains(" playhouse") || line.contains(" WARN ")), "{logged}");
    assert!(!logged.contains(&shape), "{logged}");
    is_clean("the log", &logged);
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(done.err.contains("no room for ****") && !done.err.contains(&shape), "{done:?}");
    // The journal says what was said.
    let entries: String = desk.entries(&desk.session()).iter().map(Value::to_string).collect();
    assert!(entries.contains(&shape), "{entries}");
    is_clean("the journal", &everything(&desk.data()));
}

#[test]
fn a_log_that_cannot_be_written_is_refused() {
    let desk = Desk::new();
    let done = run(&desk, &["sessions", "list"], &[("PLAYHOUSE_LOG", "/dev/null/x")]);
    done.refused(&["/dev/null/x", "--log"]);
}
