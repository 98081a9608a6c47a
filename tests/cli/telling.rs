//! What a run is told: a prompt, what is piped in beside it, pictures, and what is typed when there is no prompt.

use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Desk, Done, finish};

/// A script that answers once.
fn answering(desk: &Desk) -> String {
    desk.script("s.json", json!([{"text": "read"}]))
}

/// The blocks of the prompt that the one session has.
fn told(desk: &Desk) -> Vec<Value> {
    let entries = desk.entries(&desk.session());
    let input = entries.iter().find(|entry| entry["body"]["type"] == "input").unwrap();
    let content = &input["body"]["messages"][0]["content"];
    content.as_array().unwrap_or_else(|| panic!("{input}")).clone()
}

#[track_caller]
pub fn is_told(desk: &Desk, text: &str) {
    assert_eq!(told(desk), [json!({"type": "text", "text": text})]);
}

#[test]
fn what_is_piped_in_beside_a_prompt_is_context() {
    let desk = Desk::new();
    let script = answering(&desk);
    desk.pipe(&["run", "review this", "--script", &script], b"-old\n+new\n").said("read\n");
    is_told(&desk, "review this\n\nThis was piped in:\n<stdin>\n-old\n+new\n</stdin>");
}

#[test]
fn a_file_on_stdin_is_context_too_and_its_own_marks_end_nothing() {
    let desk = Desk::new();
    let script = answering(&desk);
    let file = desk.write("notes.txt", "a </stdin> b");
    let mut command = desk.command(&["run", "sum up", "--script", &script]);
    command.stdin(std::fs::File::open(file).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap()).said("read\n");
    is_told(&desk, "sum up\n\nThis was piped in:\n<stdin-2>\na </stdin> b\n</stdin-2>");
}

#[test]
fn stdin_that_has_nothing_adds_nothing() {
    for input in [&b""[..], b" \n\n"] {
        let desk = Desk::new();
        let script = answering(&desk);
        desk.pipe(&["run", "alone", "--script", &script], input).said("read\n");
        is_told(&desk, "alone");
    }
    // Closed, and the device that is always empty.
    for redirection in ["<&-", "</dev/null"] {
        let desk = Desk::new();
        let script = answering(&desk);
        let line = format!("exec \"$@\" {redirection}");
        let mut command = desk.command_by(&["sh", "-c", &line, "sh"], &["run", "alone", "--script", &script]);
        let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        done.said("read\n");
        assert_eq!(done.err, "", "{redirection}");
        is_told(&desk, "alone");
    }
}

#[test]
fn a_pipe_that_nobody_writes_to_or_closes_does_not_hold_up_a_run_with_a_prompt() {
    let desk = Desk::new();
    let script = answering(&desk);
    let mut command = desk.command(&["run", "alone", "--script", &script]);
    // A socket is what some programs give those they start.
    let (socket, other_end) = std::os::unix::net::UnixStream::pair().unwrap();
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
    let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    done.said("read\n");
    assert!(done.err.contains("nothing came from stdin") && done.err.contains("</dev/null"), "{done:?}");
    is_told(&desk, "alone");
    drop(other_end);
    let (pipe, writer) = std::io::pipe().unwrap();
    let mut command = desk.command(&["run", "go on", "--continue", "--script", &script]);
    command.stdin(pipe).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = finish(command.spawn().unwrap());
    assert!(done.err.contains("nothing came from stdin"), "{done:?}");
    drop(writer);
}

#[test]
fn piped_input_that_began_is_waited_for_to_its_end() {
    let desk = Desk::new();
    let script = answering(&desk);
    let mut command = desk.command(&["run", "sum up", "--script", &script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"first ").unwrap();
    // Longer than a first byte may take.
    std::thread::sleep(std::time::Duration::from_secs(6));
    stdin.write_all(b"last").unwrap();
    drop(stdin);
    finish(child).said("read\n");
    is_told(&desk, "sum up\n\nThis was piped in:\n<stdin>\nfirst last\n</stdin>");
}

#[test]
fn piped_input_that_cannot_be_told_is_refused() {
    let desk = Desk::new();
    let script = answering(&desk);
    desk.pipe(&["run", "x", "--script", &script], b"a \xff b").refused(&["stdin", "UTF-8"]);
    let much = vec![b'a'; (1 << 20) + 1];
    desk.pipe(&["run", "x", "--script", &script], &much).refused(&["1 MiB", "stdin", "file"]);
    assert_eq!(desk.sessions(), Vec::<Value>::new());
    desk.pipe(&["run", "x", "--script", &script], &much[1..]).said("read\n");
}

#[test]
fn a_dash_is_the_whole_prompt_from_stdin() {
    let desk = Desk::new();
    let script = answering(&desk);
    desk.pipe(&["run", "-", "--script", &script], b"all of it\n").said("read\n");
    is_told(&desk, "all of it");
}

/// Pictures of one pixel, without the pixel.
const PICTURES: [(&str, &[u8]); 4] = [
    ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0crc!\0\0\0\0IENDcrc!"),
    ("image/jpeg", b"\xff\xd8\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\xff\xd9"),
    ("image/gif", b"GIF89a\x01\0\x01\0\0\0\0;"),
    ("image/webp", b"RIFF\x16\0\0\0WEBPVP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\x01\0\x01\0"),
];

#[test]
fn pictures_go_with_the_prompt_by_what_they_are_and_not_by_their_names() {
    let desk = Desk::new();
    let script = answering(&desk);
    let mut args = vec!["run".to_owned(), "what is it?".to_owned(), "--script".to_owned(), script];
    for (n, (_, bytes)) in PICTURES.iter().enumerate() {
        let path = desk.work().join(format!("picture{n}.txt"));
        std::fs::write(&path, bytes).unwrap();
        args.extend(["--image".to_owned(), path.display().to_string()]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    desk.run(&args).said("read\n");
    let told = told(&desk);
    let kinds: Vec<&str> = told.iter().filter_map(|block| block["mime_type"].as_str()).collect();
    assert_eq!(kinds, PICTURES.map(|(kind, _)| kind), "{told:?}");
    assert_eq!(told[0]["text"], "what is it?");
    assert_eq!(told[3]["data"], "R0lGODlhAQABAAAAADs=", "base64: {told:?}");
}

#[test]
fn a_file_that_is_no_picture_or_too_large_is_refused() {
    let desk = Desk::new();
    let script = answering(&desk);
    let run = |file: &str| desk.run(&["run", "x", "--script", &script, "--image", file]);
    desk.write("notes.txt", "text");
    run("notes.txt").refused(&["--image notes.txt", "PNG, JPEG, GIF or WebP"]);
    run("nowhere.png").refused(&["--image nowhere.png", "No such file"]);
    run(".").refused(&["--image ."]);
    for (n, (_, bytes)) in PICTURES.iter().enumerate() {
        std::fs::write(desk.work().join("cut.png"), &bytes[..bytes.len() - 1]).unwrap();
        run("cut.png").refused(&["--image cut.png", "cut off or damaged"]);
        std::fs::write(desk.work().join("cut.png"), &bytes[..12]).unwrap();
        assert_eq!(run("cut.png").code, Some(2), "{n}");
    }
    // Neither ends by itself.
    assert!(std::process::Command::new("mkfifo").arg(desk.work().join("pipe")).status().unwrap().success());
    run("pipe").refused(&["--image pipe", "no plain file"]);
    run("/dev/zero").refused(&["--image /dev/zero", "no plain file"]);
    let large = std::fs::File::create(desk.work().join("large.png")).unwrap();
    (&large).write_all(PICTURES[0].1).unwrap();
    large.set_len(20_000_001).unwrap();
    run("large.png").refused(&["--image large.png", "20 MB", "smaller"]);
    assert_eq!(desk.sessions(), Vec::<Value>::new());
}

#[test]
fn a_model_that_takes_no_pictures_is_refused_before_anything_is_sent() {
    let desk = Desk::new();
    std::fs::write(desk.work().join("p.png"), PICTURES[0].1).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    for model in ["deepseek/deepseek-chat", "groq/llama-3.3-70b-versatile", "openai/gpt-5,groq/llama-3.3-70b-versatile"]
    {
        let args = ["run", "what is it?", "--image", "p.png", "--model", model, "--base-url", &url];
        let mut command = desk.command(&args);
        for key in ["DEEPSEEK_API_KEY", "GROQ_API_KEY", "OPENAI_API_KEY"] {
            command.env(key, "key-0123456789");
        }
        let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        done.refused(&["takes no images", model.rsplit(',').next().unwrap()]);
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody was asked");
}

/// Runs against a service at which nobody answers, with every key.
fn unasked(desk: &Desk, args: &[&str]) -> Done {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let mut command = desk.command(&[&["run", "go", "--base-url", &url], args].concat());
    for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GROQ_API_KEY", "GOOGLE_OAUTH_ACCESS_TOKEN"] {
        command.env(key, "key-0123456789");
    }
    command.env("PLAYHOUSE_VERTEX_PROJECT", "p").env("PLAYHOUSE_VERTEX_REGION", "europe-west4");
    command.env("PLAYHOUSE_RETRY_MAX_RETRIES", "0").env("PLAYHOUSE_CONNECTION_FIRST_EVENT_MS", "1000");
    let done = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody was asked: {done:?}");
    done
}

#[test]
fn a_picture_that_the_service_is_known_not_to_take_is_refused_before_there_is_a_session() {
    let desk = Desk::new();
    let mut wide = PICTURES[0].1.to_vec();
    wide[16..20].copy_from_slice(&9_000_u32.to_be_bytes());
    std::fs::write(desk.work().join("wide.png"), &wide).unwrap();
    for flags in [&[][..], &["--quiet"], &["--fail-incomplete"]] {
        let args = ["--model", "anthropic/claude-sonnet-4-5", "--image", "wide.png"];
        unasked(&desk, &[&args, flags].concat()).refused(&["9000 pixels", "at most 8000", "anthropic", "leave it out"]);
    }
    std::fs::write(desk.work().join("small.gif"), PICTURES[2].1).unwrap();
    let args = ["--model", "vertex/gemini-2.5-flash", "--image", "small.gif"];
    unasked(&desk, &args).refused(&["image/gif", "image/png"]);
    assert!(desk.sessions().is_empty(), "{:?}", desk.sessions());
}

#[test]
fn what_a_model_does_not_know_is_refused_before_there_is_a_session() {
    let desk = Desk::new();
    for (model, flags, words) in [
        (
            "openai/gpt-4o",
            &["--thinking", "low"][..],
            &["`gpt-4o` does not take --thinking low", "does not reason"][..],
        ),
        ("openai/o3", &["--thinking", "minimal"], &["--thinking minimal", "it knows low, medium, high"]),
        (
            "openai/gpt-5,groq/llama-3.3-70b-versatile",
            &["--thinking", "low"],
            &["the fallback groq/", "--thinking low"],
        ),
        ("vertex/claude-sonnet-4-5", &[], &["Claude on Vertex is not supported", "anthropic/ID"]),
    ] {
        unasked(&desk, &[&["--model", model], flags].concat()).refused(words);
    }
    assert!(desk.sessions().is_empty(), "{:?}", desk.sessions());
    // A session that is there keeps what it has.
    let script = answering(&desk);
    desk.run(&["run", "a", "--script", &script]).said("read\n");
    let (session, before) = (desk.session(), desk.entries(&desk.session()).len());
    let args = ["--session", &session, "--model", "openai/gpt-4o", "--thinking", "low"];
    unasked(&desk, &args).refused(&["--thinking low"]);
    assert_eq!(desk.entries(&session).len(), before);
}

#[test]
fn without_a_prompt_on_a_terminal_one_is_asked_for() {
    for (typed, expected) in
        [("say hello\r\r", "say hello"), ("two\rlines\r\r", "two\nlines"), ("to the end\r\x04", "to the end")]
    {
        let desk = Desk::new();
        let script = answering(&desk);
        let (code, screen) =
            desk.on_terminal_typing(&["run", "--script", &script], "/dev/null".as_ref(), &[("> ", typed)]);
        assert_eq!(code, Some(0), "{screen}");
        assert!(screen.contains("an empty line ends it") && screen.contains("read"), "{screen}");
        is_told(&desk, expected);
    }
}

#[test]
fn ctrl_c_at_the_question_for_a_prompt_leaves_with_130_and_no_session() {
    let desk = Desk::new();
    let script = answering(&desk);
    let (code, screen) = desk.on_terminal_interrupted(&["run", "--script", &script], "> ");
    assert_eq!(code, Some(130), "{screen}");
    assert!(!desk.data().exists());
    // A model that cannot be asked is told before anybody types.
    let (code, screen) = desk.on_terminal(&["run", "--model", "openai/gpt-5"]);
    assert_eq!(code, Some(2), "{screen}");
    assert!(screen.contains("OPENAI_API_KEY") && !screen.contains("> "), "{screen}");
}

#[test]
fn a_person_is_told_that_piped_input_is_waited_for() {
    let desk = Desk::new();
    let script = answering(&desk);
    let (pipe, writer) = std::io::pipe().unwrap();
    // Only stderr is the terminal: stdin is the pipe.
    let line = format!("exec '{}' run alone --script '{script}' <&3", env!("CARGO_BIN_EXE_playhouse"));
    let mut command =
        desk.command_by(&["sh", "-c", "exec 3<&0; exec script -qefc \"$0\" /dev/null </dev/null", &line], &[]);
    let mut child = command.stdin(pipe).stdout(Stdio::piped()).spawn().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let (mut seen, mut buffer) = (String::new(), [0; 1024]);
    while !seen.contains("waiting for stdin") {
        let n = screen.read(&mut buffer).unwrap();
        assert!(n > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    drop(writer);
    screen.read_to_string(&mut seen).unwrap();
    assert!(child.wait().unwrap().success(), "{seen}");
    is_told(&desk, "alone");
}

/// The system prompt that a session began with, and has now.
fn prompts(desk: &Desk, session: &str) -> (String, String) {
    let entries = desk.entries(session);
    let text = |entry: &Value| entry["body"]["settings"]["system_prompt"].as_str().map(str::to_owned);
    (text(&entries[0]).unwrap(), entries.iter().filter_map(text).next_back().unwrap())
}

#[test]
fn an_agent_is_told_where_it_is_and_a_later_day_changes_nothing() {
    let desk = Desk::new();
    let here = desk.work().display().to_string();
    let turns =
        json!([{"text": "one", "when": {"system_contains": here}}, {"text": "two", "when": {"system_contains": here}}]);
    let script = desk.script("s.json", turns);
    desk.run(&["run", "go", "--script", &script]).said("one\n");
    let session = desk.session();
    let (prompt, _) = prompts(&desk, &session);
    let begun = desk.entries(&session)[0]["at"].as_i64().unwrap();
    let date = jiff::Timestamp::from_millisecond(begun).unwrap().strftime("%Y-%m-%d").to_string();
    for line in [format!("Working directory: {here}\n"), format!("Date: {date} (UTC)\n")] {
        assert!(prompt.contains(&line), "{line}: {prompt}");
    }
    for words in
        ["Tools: read_file, ", "Sandbox: commands write only in", "--allow network", "Nobody is there to answer"]
    {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    assert!(prompt.chars().count() <= 1_500, "{prompt}");
    desk.run(&["run", "more", "--session", &session]).said("two\n");
    assert_eq!(prompts(&desk, &session), (prompt.clone(), prompt.clone()), "the same words for the cache");
    // What flags change is changed in it too, and nothing else.
    let other = desk.script("other.json", json!([{"text": "x"}, {"text": "x"}, {"text": "three"}]));
    desk.run(&["run", "on", "--session", &session, "--script", &other, "--tools", "bash"]).said("three\n");
    let (_, now) = prompts(&desk, &session);
    let unlike: Vec<&str> = now.lines().filter(|line| !prompt.contains(line)).collect();
    assert_eq!((unlike, now.lines().count()), (vec!["Tools: bash"], prompt.lines().count()));
}

#[test]
fn the_system_prompt_is_replaced_by_a_text_a_file_or_nothing() {
    let desk = Desk::new();
    let script = answering(&desk);
    desk.write("p.md", "Be a reviewer.\n");
    let prompt = |flags: &[&str]| {
        desk.run(&[&["run", "go", "--script", &script], flags].concat()).said("read\n");
        let session = desk.sessions()[0]["session_id"].as_str().unwrap().to_owned();
        let (prompt, _) = prompts(&desk, &session);
        desk.run(&["sessions", "rm", &session]);
        prompt
    };
    assert_eq!(prompt(&["--system", "Be brief."]), "Be brief.");
    assert_eq!(prompt(&["--system", ""]), "");
    assert_eq!(prompt(&["--system-file", "p.md"]), "Be a reviewer.");
    let run = ["run", "go", "--script", &script, "--system-file"];
    desk.run(&[&run[..], &["nowhere.md"]].concat()).refused(&["nowhere.md", "system prompt"]);
    let file = desk.write("c.toml", "system = ''");
    assert_eq!(prompt(&["--config", file.to_str().unwrap()]), "", "a file can say that there is none");
    assert_eq!(prompt(&["--config", file.to_str().unwrap(), "--system-file", "p.md"]), "Be a reviewer.");
    let file = desk.write("c.toml", "system_file = 'p.md'");
    assert_eq!(prompt(&["--config", file.to_str().unwrap()]), "Be a reviewer.");
    assert_eq!(prompt(&["--config", file.to_str().unwrap(), "--system", "Be brief."]), "Be brief.");
}

#[test]
fn a_sub_agent_is_told_that_it_is_one() {
    let desk = Desk::new();
    let turns = json!([
        {"tool_calls": [{"name": "sub_agent", "arguments": {"task": "count"}}], "when": {"prompt_contains": "go"}},
        {"text": "one two", "when": {"system_contains": "You are a sub-agent"}},
        {"text": "counted", "when": {"prompt_contains": "go"}},
    ]);
    let script = desk.script("s.json", turns);
    desk.run(&["run", "go", "--script", &script, "--tools", "list_files,sub_agent"]).said("counted\n");
    let child = desk.sessions().into_iter().find(|session| session["parent"].is_string()).unwrap();
    let (prompt, _) = prompts(&desk, child["session_id"].as_str().unwrap());
    assert!(prompt.contains("Tools: list_files\n") && prompt.contains("Working directory: "), "{prompt}");
}

#[test]
fn where_no_sandbox_works_nobody_says_that_one_does() {
    // A filter of system calls for bubblewrap: this kernel has no Landlock (call 444), and the path has no bubblewrap.
    let instructions: [(u16, u8, u8, u32); 4] =
        [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x0005_0000 | 38), (0x06, 0, 0, 0x7fff_0000)];
    let bytes = instructions
        .iter()
        .flat_map(|(code, jt, jf, k)| [&code.to_ne_bytes()[..], &[*jt, *jf], &k.to_ne_bytes()].concat());
    let desk = Desk::new();
    let filter = desk.work().join("filter.bpf");
    std::fs::write(&filter, bytes.collect::<Vec<u8>>()).unwrap();
    let script = answering(&desk);
    let bwrap = ["bwrap", "--dev-bind", "/", "/", "--seccomp", "0", "--setenv", "PATH", "/nowhere", "--"];
    let mut command = desk.command_by(&bwrap, &["run", "go", "--script", &script]);
    command.stdin(std::fs::File::open(&filter).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = finish(command.spawn().expect("`bwrap` is needed"));
    done.said("read\n");
    let (prompt, _) = prompts(&desk, &desk.session());
    assert!(prompt.contains("Sandbox: none works on this machine. Commands may do all that the user may"), "{prompt}");
    // The next run is where one works, and the session is told so.
    desk.run(&["run", "more", "--session", "last"]);
    let (_, now) = prompts(&desk, &desk.session());
    assert!(now.contains("Sandbox: commands write only"), "{now}");
}
