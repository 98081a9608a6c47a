//! Every example runs offline and says what it should.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

fn program(example: &str) -> PathBuf {
    // This test is beside them: `target/debug/deps` and `target/debug/examples`.
    let folder = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples");
    let program = folder.join(example);
    assert!(program.exists(), "{} is not built: run `cargo build --examples` first", program.display());
    program
}

fn says(example: &str) -> Vec<String> {
    let output = Command::new(program(example)).env_remove("OPENAI_API_KEY").output().unwrap();
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn hello() {
    assert_eq!(says("hello"), ["Hello from the stage."]);
}

#[test]
fn the_main_of_hello_has_at_most_ten_lines_of_code() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/hello.rs")).unwrap();
    let main = text.split("async fn main").nth(1).unwrap();
    let lines = main.lines().skip(1).take_while(|line| *line != "}").filter(|line| !line.trim().is_empty());
    assert!(lines.count() <= 10);
}

/// People read this much before they go on.
#[test]
fn the_readme_has_at_most_a_thousand_words() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let words = readme.split_whitespace().count();
    assert!(words <= 1_000, "the README has {words} words: move some to docs/");
}

/// The programs of the README, without their first lines of comment.
#[test]
fn the_readme_has_the_programs_that_are_run_here() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    for name in ["hello", "real_model"] {
        let path = format!("{}/examples/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let (_, code) = text.split_once("\n\n").unwrap();
        assert!(readme.contains(code), "{name}");
    }
}

#[test]
fn a_program_whose_key_is_refused_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let _ = socket.read(&mut [0; 65_536]);
            let body = r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
            let head = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close";
            let _ = write!(socket, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("real_model"));
    command.current_dir(folder.path()).env("ANTHROPIC_API_KEY", "wrong").env("ANTHROPIC_BASE_URL", address);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("invalid x-api-key"), "{told}");
}

#[test]
fn custom_tool() {
    let said = says("custom_tool");
    assert!(said[0].starts_with("refused: ") && said[0].contains("sides"), "{said:?}");
    assert_eq!(said[1..], ["result: 20 came up", "Twenty! What luck."]);
}

#[test]
fn typed_tool() {
    let said = says("typed_tool");
    assert!(said[0].starts_with("refused: ") && said[0].contains("\"city\" is a required property"), "{said:?}");
    let rest = ["refused: there is no weather station in Atlantis; try Rome", "result: tomorrow: 24 °C"];
    assert_eq!(said[1..], [&rest[..], &["Pack something light."]].concat());
}

#[test]
fn a_typed_tool_has_at_most_eight_lines() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/typed_tool.rs")).unwrap();
    let tool = text.split("\n\n").find(|part| part.contains("#[tool")).unwrap();
    assert!(tool.lines().count() <= 8, "{tool}");
}

#[test]
fn steering() {
    assert_eq!(
        says("steering"),
        [
            "you:   Dig two holes.",
            "agent: Digging.",
            "tool:  a hole",
            "tool:  Skipped due to queued user message.",
            "you:   One is enough.",
            "agent: I stopped after the first.",
            "you:   Now fill it in.",
            "agent: Filled in again.",
        ]
    );
}

#[test]
fn observing() {
    let mut said = says("observing");
    assert_eq!(said.pop_if(|line| line.starts_with("callback:")), None, "the callback comes before the end: {said:?}");
    said.sort();
    assert!(said[3].starts_with("journal:   "), "{said:?}");
    said.remove(3);
    assert_eq!(
        said,
        [
            "callback:  bash: sh -c 'echo from a real shell' (exit 0)",
            "consumer 1: saw the end",
            "consumer 2: saw the end",
            "stream:    May I?",
            "stream:    Thank you.",
            "stream:    allows \"sh -c 'echo from a real shell'\"",
        ]
    );
}

#[test]
fn restart() {
    assert_eq!(
        says("restart"),
        ["One.", "Two. (after its actor crashed)", "Three. (in another house)", "6 messages, none lost"]
    );
}

#[test]
fn sub_agent() {
    assert_eq!(says("sub_agent"), ["helpers: 1889. 330 m.", "agent:   It is 330 m high and was finished in 1889."]);
}

#[test]
fn hundred_agents() {
    assert_eq!(says("hundred_agents"), ["100 of 100 answered over 1 connection; 10 were made to crash"]);
}

#[test]
fn structured() {
    assert_eq!(says("structured"), ["Rome has 2750000 people", "after 4 messages, the repair among them"]);
}

#[test]
fn fallback() {
    assert_eq!(
        says("fallback"),
        [
            "attempt 0: no answer from the provider: HTTP 500: an error of the script",
            "attempt 1: no answer from the provider: HTTP 500: an error of the script",
            "answer: I am still here.",
            "2 messages: failed attempts leave none",
        ]
    );
}

#[test]
fn policy() {
    let said = says("policy");
    assert!(said[0].starts_with("refused: ") && said[0].contains("at most 100, and before six o'clock"), "{said:?}");
    assert_eq!(said[1..], ["paid: Ann has 50", "Ann has her money."]);
}

#[test]
fn hooks() {
    let said = says("hooks");
    let refused = said.iter().find(|line| line.starts_with("refused: ")).unwrap();
    assert!(refused.contains("that file is nobody's business"), "{said:?}");
    assert!(said.contains(&"list_files is done".to_owned()), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("the run took ")), "{said:?}");
    assert!(said.contains(&"I looked at what I may see.".to_owned()), "{said:?}");
}

#[test]
fn provider() {
    assert_eq!(says("provider"), ["desserts"]);
}

#[test]
fn service() {
    let answered = "200 of 200 customers were answered; 10 clerks crashed on the way";
    assert_eq!(says("service"), [answered, "200 sessions are kept"]);
}
