//! Every source sets every key that it may, and the later wins.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::support::Place;

/// A key, what each source gives it, and what is shown then.
struct Sample {
    key: &'static str,
    default: Value,
    user: (&'static str, Value),
    project: Option<(&'static str, Value)>,
    variable: (&'static str, &'static str, Value),
    flag: Option<(&'static str, &'static str, Value)>,
}

fn samples(place: &Place) -> Vec<Sample> {
    let data = |folder: std::path::PathBuf| json!(folder.to_str().unwrap());
    let key = |key, default, user, project, variable, flag| Sample { key, default, user, project, variable, flag };
    let text = |text: &str| json!(text);
    let url = |name, variable| {
        let user = (r#""https://u/a""#, text("https://u/a"));
        key(name, Value::Null, user, None, (variable, " http://e ", text("http://e")), None)
    };
    let name = |name, variable| {
        let user = (r#""u-1.2_3:4""#, text("u-1.2_3:4"));
        key(name, Value::Null, user, None, (variable, " e ", text("e")), None)
    };
    let number = |name, default, variable| {
        key(name, default, ("86_400_000", json!(86_400_000)), None, (variable, "1", json!(1)), None)
    };
    vec![
        key(
            "model",
            Value::Null,
            (r#"["openai/u", "groq/u,v"]"#, json!(["openai/u", "groq/u,v"])),
            Some((r#""groq/p,openai/p""#, json!(["groq/p", "openai/p"]))),
            ("PLAYHOUSE_MODEL", "openai/e, ollama/e", json!(["openai/e", "ollama/e"])),
            Some(("--model", "mistral/f,g", text("mistral/f,g"))),
        ),
        key(
            "base_url",
            Value::Null,
            (r#""http://u/v1""#, text("http://u/v1")),
            None,
            ("PLAYHOUSE_BASE_URL", "http://e/v1", text("http://e/v1")),
            Some(("--base-url", "http://f/v1", text("http://f/v1"))),
        ),
        key(
            "system",
            Value::Null,
            (r#""u""#, text("u")),
            Some((r#""p""#, text("p"))),
            ("PLAYHOUSE_SYSTEM", "${e}", text("${e}")),
            Some(("--system", "", text(""))),
        ),
        key(
            "system_file",
            Value::Null,
            (r#""/u.md""#, text("/u.md")),
            None,
            ("PLAYHOUSE_SYSTEM_FILE", "/e.md", text("/e.md")),
            Some(("--system-file", "/f.md", text("/f.md"))),
        ),
        key(
            "tools",
            json!(["read_file", "list_files", "search", "edit_file", "write_file", "bash"]),
            (r#"["bash", "sub_agent", "bash"]"#, json!(["bash", "sub_agent"])),
            Some((r#"["sub_agent"]"#, json!(["sub_agent"]))),
            ("PLAYHOUSE_TOOLS", " read_file, sub_agent,", json!(["read_file", "sub_agent"])),
            Some(("--tools", "none", json!([]))),
        ),
        key(
            "permission",
            text("ask"),
            (r#""yolo""#, text("yolo")),
            Some((r#""ask""#, text("ask"))),
            ("PLAYHOUSE_PERMISSION", "yolo", text("yolo")),
            Some(("--permission", "ask", text("ask"))),
        ),
        key(
            "question_timeout",
            text("none"),
            (r#""2m""#, text("2m")),
            Some((r#""1m""#, text("1m"))),
            ("PLAYHOUSE_QUESTION_TIMEOUT", "90s", text("1m 30s")),
            Some(("--question-timeout", "none", text("none"))),
        ),
        key(
            "sandbox",
            text("auto"),
            (r#""off""#, text("off")),
            Some((r#""bwrap""#, text("bwrap"))),
            ("PLAYHOUSE_SANDBOX", "landlock", text("landlock")),
            Some(("--sandbox", "auto", text("auto"))),
        ),
        key(
            "sandbox_read",
            json!([]),
            (r#"["u"]"#, json!([place.home().join("config/playhouse/u")])),
            None,
            ("PLAYHOUSE_SANDBOX_READ", "e, /f", json!([place.work().join("e"), "/f"])),
            None,
        ),
        key(
            "sandbox_write",
            json!([]),
            (r#"["/u"]"#, json!(["/u"])),
            None,
            ("PLAYHOUSE_SANDBOX_WRITE", "/e", json!(["/e"])),
            None,
        ),
        key(
            "sandbox_network",
            text("denied"),
            (r#""granted""#, text("granted")),
            Some((r#""denied""#, text("denied"))),
            ("PLAYHOUSE_SANDBOX_NETWORK", "granted", text("granted")),
            None,
        ),
        key(
            "sandbox_processes",
            json!(512),
            ("100", json!(100)),
            Some(("50", json!(50))),
            ("PLAYHOUSE_SANDBOX_PROCESSES", "1000", json!(1_000)),
            None,
        ),
        key(
            "sandbox_memory_mb",
            json!(4_096),
            ("100", json!(100)),
            Some(("50", json!(50))),
            ("PLAYHOUSE_SANDBOX_MEMORY_MB", "1000", json!(1_000)),
            None,
        ),
        key(
            "sandbox_file_mb",
            json!(10_240),
            ("100", json!(100)),
            Some(("50", json!(50))),
            ("PLAYHOUSE_SANDBOX_FILE_MB", "1000", json!(1_000)),
            None,
        ),
        key(
            "tool_env",
            json!([]),
            (r#"["A"]"#, json!(["A"])),
            None,
            ("PLAYHOUSE_TOOL_ENV", "MY_TOKEN, B", json!(["MY_TOKEN", "B"])),
            None,
        ),
        key(
            "guarded",
            json!([]),
            (r#"["deploy"]"#, json!(["deploy"])),
            None,
            ("PLAYHOUSE_GUARDED", "a, b/c", json!(["a", "b/c"])),
            None,
        ),
        key(
            "durability",
            text("flush"),
            (r#""os""#, text("os")),
            None,
            ("PLAYHOUSE_DURABILITY", "none", text("none")),
            Some(("--durability", "flush", text("flush"))),
        ),
        key(
            "data_dir",
            data(place.home().join("data/playhouse")),
            (r#""kept""#, data(place.home().join("config/playhouse/kept"))),
            None,
            ("PLAYHOUSE_HOME", "e", data(place.work().join("e"))),
            Some(("--data-dir", "/f", text("/f"))),
        ),
        key(
            "thinking",
            text("off"),
            (r#""low""#, text("low")),
            Some((r#""medium""#, text("medium"))),
            ("PLAYHOUSE_THINKING", "high", text("high")),
            Some(("--thinking", "minimal", text("minimal"))),
        ),
        key(
            "max_tokens",
            Value::Null,
            ("1", json!(1)),
            Some(("2", json!(2))),
            ("PLAYHOUSE_MAX_TOKENS", "3", json!(3)),
            Some(("--max-tokens", "4294967295", json!(4_294_967_295_u32))),
        ),
        key(
            "temperature",
            Value::Null,
            ("0.7", json!(0.7)),
            Some(("1", json!(1.0))),
            ("PLAYHOUSE_TEMPERATURE", "0", json!(0.0)),
            Some(("--temperature", "2", json!(2.0))),
        ),
        key(
            "tool_execution",
            text("parallel"),
            (r#""sequential""#, text("sequential")),
            Some((r#""batched:2""#, text("batched:2"))),
            ("PLAYHOUSE_TOOL_EXECUTION", "parallel", text("parallel")),
            None,
        ),
        key("cache", text("auto"), (r#""off""#, text("off")), None, ("PLAYHOUSE_CACHE", "auto", text("auto")), None),
        key(
            "permissions.allow",
            json!([]),
            (r#"["bash(git status)", "edit_file"]"#, json!(["bash(git status)", "edit_file"])),
            None,
            ("PLAYHOUSE_PERMISSIONS_ALLOW", "bash(ls), write_file(src/**)", json!(["bash(ls)", "write_file(src/**)"])),
            None,
        ),
        key(
            "permissions.ask",
            json!([]),
            (r#"["bash(u)"]"#, json!(["bash(u)"])),
            Some((r#"["bash(p)"]"#, json!(["bash(u)", "bash(p)"]))),
            ("PLAYHOUSE_PERMISSIONS_ASK", "bash(e)", json!(["bash(e)"])),
            None,
        ),
        key(
            "permissions.forbid",
            json!([]),
            (r#"["bash(u *)"]"#, json!(["bash(u *)"])),
            Some((r#"["bash(u *)", "read_file(p)"]"#, json!(["bash(u *)", "read_file(p)"]))),
            ("PLAYHOUSE_PERMISSIONS_FORBID", "bash", json!(["bash"])),
            None,
        ),
        url("openai.base_url", "PLAYHOUSE_OPENAI_BASE_URL"),
        url("anthropic.base_url", "PLAYHOUSE_ANTHROPIC_BASE_URL"),
        url("azure.base_url", "PLAYHOUSE_AZURE_BASE_URL"),
        name("azure.api_version", "PLAYHOUSE_AZURE_API_VERSION"),
        url("google.base_url", "PLAYHOUSE_GOOGLE_BASE_URL"),
        url("vertex.base_url", "PLAYHOUSE_VERTEX_BASE_URL"),
        name("vertex.project", "PLAYHOUSE_VERTEX_PROJECT"),
        name("vertex.region", "PLAYHOUSE_VERTEX_REGION"),
        url("bedrock.base_url", "PLAYHOUSE_BEDROCK_BASE_URL"),
        name("bedrock.region", "PLAYHOUSE_BEDROCK_REGION"),
        url("ollama.base_url", "PLAYHOUSE_OLLAMA_BASE_URL"),
        number("connection.concurrency", text("none"), "PLAYHOUSE_CONNECTION_CONCURRENCY"),
        number("connection.requests_per_minute", text("none"), "PLAYHOUSE_CONNECTION_REQUESTS_PER_MINUTE"),
        number("connection.tokens_per_minute", text("none"), "PLAYHOUSE_CONNECTION_TOKENS_PER_MINUTE"),
        number("connection.breaker_failures", json!(5), "PLAYHOUSE_CONNECTION_BREAKER_FAILURES"),
        number("connection.breaker_pause_ms", json!(10_000), "PLAYHOUSE_CONNECTION_BREAKER_PAUSE_MS"),
        number("connection.connect_ms", json!(10_000), "PLAYHOUSE_CONNECTION_CONNECT_MS"),
        number("connection.first_event_ms", json!(120_000), "PLAYHOUSE_CONNECTION_FIRST_EVENT_MS"),
        number("connection.idle_ms", json!(120_000), "PLAYHOUSE_CONNECTION_IDLE_MS"),
        number("connection.total_ms", text("none"), "PLAYHOUSE_CONNECTION_TOTAL_MS"),
        key(
            "limits.max_turns",
            json!(50),
            ("40", json!(40)),
            Some(("30", json!(30))),
            ("PLAYHOUSE_LIMITS_MAX_TURNS", "60", json!(60)),
            Some(("--max-turns", "none", text("none"))),
        ),
        key(
            "limits.max_total_tokens",
            json!(1_000_000),
            (r#""none""#, text("none")),
            Some(("5_000_000", json!(5_000_000))),
            ("PLAYHOUSE_LIMITS_MAX_TOTAL_TOKENS", "1", json!(1)),
            Some(("--max-total-tokens", "9223372036854775807", json!(i64::MAX))),
        ),
        key(
            "limits.max_duration",
            text("none"),
            (r#""8760h""#, text("8760h")),
            Some((r#""90s""#, text("1m 30s"))),
            ("PLAYHOUSE_LIMITS_MAX_DURATION", "500ms", text("500ms")),
            Some(("--max-duration", "1h 30m", text("1h 30m"))),
        ),
        key("retry.max_retries", json!(3), ("0", json!(0)), None, ("PLAYHOUSE_RETRY_MAX_RETRIES", "7", json!(7)), None),
        key(
            "retry.initial_delay_ms",
            json!(1_000),
            ("5", json!(5)),
            None,
            ("PLAYHOUSE_RETRY_INITIAL_DELAY_MS", "0", json!(0)),
            None,
        ),
        key(
            "retry.backoff_multiplier",
            json!(2.0),
            ("1.5", json!(1.5)),
            None,
            ("PLAYHOUSE_RETRY_BACKOFF_MULTIPLIER", "3", json!(3.0)),
            None,
        ),
        key(
            "retry.max_delay_ms",
            json!(30_000),
            ("86400000", json!(86_400_000)),
            None,
            ("PLAYHOUSE_RETRY_MAX_DELAY_MS", "9", json!(9)),
            None,
        ),
    ]
}

/// A file with these keys, and the line of each.
fn file(values: &[(&'static str, &str)]) -> (String, BTreeMap<&'static str, usize>) {
    let (mut text, mut lines, mut section) = ("# The first line.\n".to_owned(), BTreeMap::new(), "");
    for (key, value) in values {
        let (of, name) = key.rsplit_once('.').unwrap_or(("", key));
        if of != section {
            text.push_str(&format!("[{of}]\n"));
            section = of;
        }
        lines.insert(*key, text.lines().count() + 1);
        text.push_str(&format!("{name} = {value}\n"));
    }
    (text, lines)
}

#[test]
fn each_source_wins_over_those_before_it_and_every_origin_is_right() {
    let mut place = Place::new();
    let samples = samples(&place);
    let all: Vec<&str> = playhouse::config::keys().iter().map(playhouse::config::Key::name).collect();
    assert_eq!(samples.iter().map(|sample| sample.key).collect::<Vec<_>>(), all, "every key has its sample");

    let expect = |of: &dyn Fn(&Sample) -> Value| -> BTreeMap<String, Value> {
        samples.iter().map(|sample| (sample.key.to_owned(), of(sample))).collect()
    };
    let by_default = |sample: &Sample| json!({"value": sample.default, "origin": "default"});
    assert_eq!(place.shown(&[]), expect(&by_default));

    let values: Vec<_> = samples.iter().map(|sample| (sample.key, sample.user.0)).collect();
    let (text, lines) = file(&values);
    place.user(text);
    let path = place.user_file();
    let by_user =
        |sample: &Sample| json!({"value": sample.user.1, "origin": "user", "path": path, "line": lines[sample.key]});
    assert_eq!(place.shown(&[]), expect(&by_user));

    let values: Vec<_> = samples.iter().filter_map(|sample| Some((sample.key, sample.project.as_ref()?.0))).collect();
    let (text, lines) = file(&values);
    place.project(text);
    let path = place.project_file();
    let by_project = |sample: &Sample| match &sample.project {
        Some((_, value)) => json!({"value": value, "origin": "project", "path": path, "line": lines[sample.key]}),
        None => by_user(sample),
    };
    assert_eq!(place.shown(&[]), expect(&by_project));

    for sample in &samples {
        place.set(sample.variable.0, sample.variable.1);
    }
    let by_variable = |sample: &Sample| {
        let (name, _, value) = &sample.variable;
        json!({"value": value, "origin": "environment", "variable": name})
    };
    assert_eq!(place.shown(&[]), expect(&by_variable));

    let flags: Vec<&str> =
        samples.iter().filter_map(|sample| sample.flag.as_ref()).flat_map(|(flag, text, _)| [*flag, *text]).collect();
    let by_flag = |sample: &Sample| match &sample.flag {
        Some((flag, _, value)) => json!({"value": value, "origin": "flag", "flag": flag}),
        None => by_variable(sample),
    };
    assert_eq!(place.shown(&flags), expect(&by_flag));
}

#[test]
fn a_script_is_a_model_and_is_found_from_where_it_is_named() {
    let mut place = Place::new();
    let model = |place: &Place, flags: &[&str]| place.shown(flags)["model"].clone();
    let (work, home) = (place.work().join("s.json"), place.user_file().with_file_name("s.json"));
    let script = |path: &std::path::Path| format!("scripted/{}", path.display());
    place.user(r#"model = "scripted/s.json""#);
    assert_eq!(
        model(&place, &[]),
        json!({"value": script(&home), "origin": "user", "path": place.user_file(), "line": 1})
    );
    place.set("PLAYHOUSE_MODEL", "scripted/./s.json");
    assert_eq!(
        model(&place, &[]),
        json!({"value": script(&work), "origin": "environment", "variable": "PLAYHOUSE_MODEL"})
    );
    let by_flag = json!({"value": script(&work), "origin": "flag", "flag": "--script"});
    assert_eq!(model(&place, &["--script", "s.json"]), by_flag);
    // A script is one file, whatever its name; in a chain each is found the same way.
    let odd = place.work().join("a,openai/b");
    assert_eq!(model(&place, &["--script", "a,openai/b"])["value"], json!([script(&odd)]));
    assert_eq!(model(&place, &["--model", "openai/a,scripted/s.json"])["value"], json!(["openai/a", script(&work)]));
}

#[test]
fn the_variable_of_openai_is_used_when_nothing_of_ours_says_otherwise() {
    let mut place = Place::new();
    let url = |place: &Place| place.shown(&[])["openai.base_url"].clone();
    place.set("OPENAI_BASE_URL", " http://theirs/v1 ");
    let theirs = json!({"value": "http://theirs/v1", "origin": "environment", "variable": "OPENAI_BASE_URL"});
    assert_eq!(url(&place), theirs);
    // It is not ours to judge, but nothing secret in it is shown.
    place.set("OPENAI_BASE_URL", "https://user:canary@host/v1?key=canary");
    assert_eq!(url(&place)["value"], "https://…@host/v1");
    place.set("OPENAI_BASE_URL", "https://host/v1?key=canary");
    assert_eq!(url(&place)["value"], "https://host/v1…");
    place.user("[openai]\nbase_url = 'http://ours/v1'");
    assert_eq!(url(&place)["value"], "http://ours/v1");
}

#[test]
fn the_variables_of_the_other_vendors_are_used_the_same_way() {
    for (key, variable, value, shown) in [
        ("openai", "OPENAI_BASE_URL", "http://theirs/v1", "http://theirs/v1"),
        ("anthropic", "ANTHROPIC_BASE_URL", " http://theirs ", "http://theirs"),
        ("azure", "AZURE_OPENAI_BASE_URL", "http://theirs/openai/v1", "http://theirs/openai/v1"),
        ("azure", "AZURE_OPENAI_ENDPOINT", "http://theirs", "http://theirs"),
        ("google", "GOOGLE_GEMINI_BASE_URL", "http://theirs", "http://theirs"),
        ("vertex", "GOOGLE_VERTEX_BASE_URL", "http://theirs", "http://theirs"),
        ("bedrock", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://u:canary@theirs/", "http://…@theirs/"),
        ("ollama", "OLLAMA_HOST", "0.0.0.0", "http://127.0.0.1:11434/v1"),
    ] {
        let mut place = Place::new();
        let key = format!("{key}.base_url");
        place.set(variable, value);
        let theirs = json!({"value": shown, "origin": "environment", "variable": variable});
        assert_eq!(place.shown(&[])[&key], theirs, "{variable}");
        place.user(format!("{key} = 'http://ours'"));
        assert_eq!(place.shown(&[])[&key]["value"], "http://ours", "{variable}");
        place.set(format!("PLAYHOUSE_{}", key.to_uppercase().replace('.', "_")), "http://e");
        assert_eq!(place.shown(&[])[&key]["value"], "http://e", "{variable}");
        place.user("");
        place.set(variable, "");
        assert_eq!(place.shown(&[])[&key]["value"], "http://e", "{variable}");
    }
    let mut place = Place::new();
    place.set("AZURE_OPENAI_ENDPOINT", "http://second");
    place.set("AZURE_OPENAI_BASE_URL", "http://first");
    assert_eq!(place.shown(&[])["azure.base_url"]["value"], "http://first");
}

#[test]
fn every_place_that_a_vendors_variable_names_has_its_section() {
    let config = playhouse::config::Config::default();
    for preset in playhouse::provider::PRESETS {
        let has_section = config.base_url_of(preset.name).is_some();
        assert_eq!(has_section, !preset.base_url_variables.is_empty(), "{}", preset.name);
    }
}
