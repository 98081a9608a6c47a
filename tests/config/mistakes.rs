//! Mistakes in a file: each is named with its place, and with what was probably meant.

use super::support::Place;

/// What a user's file is refused with, each line without the file's name.
#[track_caller]
fn refused(text: &str, problems: &[&str]) {
    let place = Place::new();
    place.user(text);
    let path = place.user_file().display().to_string();
    let problems: Vec<String> = problems.iter().map(|problem| format!("{path}:{problem}")).collect();
    let problems: Vec<&str> = problems.iter().map(String::as_str).collect();
    place.run(&["config", "show"]).refused(&problems);
}

#[test]
fn what_is_no_toml_is_refused_where_it_stops_being_toml() {
    refused("model = ", &["1:9: this is not TOML: string values must be quoted, expected literal string"]);
    refused("# é\nmodel = \"é", &["2:11: this is not TOML: invalid basic string, expected `\"`"]);
    refused("\u{feff}model", &["1:6: this is not TOML: key with no value, expected `=`"]);
    refused("system = 'a'\r\nsystem = 'b'", &["2:1: this is not TOML: duplicate key `system`"]);
    refused("[limits]\nmax_turns = 1\n[limits]", &["3:2: this is not TOML: duplicate key `limits`"]);
    refused("max_tokens = 99999999999999999999", &["1:14: this is not TOML: integer number overflowed"]);
    refused(&format!("{} = 1", vec!["a"; 50_000].join(".")), &["1:1: this is not TOML: recursion limit"]);
    refused(
        &format!("a = {}", "[".repeat(100_000)),
        &["1:85: this is not TOML: cannot recurse further; max recursion depth met"],
    );
}

#[test]
fn what_stands_where_a_secret_could_is_not_repeated() {
    let place = Place::new();
    for text in ["openai_api_key = sk-canary", "api_key = 'sk-canary'", "[openai]\nkey = 'sk-canary'"] {
        place.user(text);
        let done = place.run(&["config", "show"]);
        assert!(done.code == Some(2) && !done.err.contains("canary"), "{done:?}");
    }
}

#[test]
fn an_unknown_key_is_named_with_the_nearest() {
    let meant = |name: &str, nearest: &str| format!("there is no key `{name}`: did you mean `{nearest}`?");
    for (text, name, nearest) in [
        ("modle = 'x'", "modle", "model"),
        ("MODEL = 'x'", "MODEL", "model"),
        ("max-tokens = 1", "max-tokens", "max_tokens"),
        ("max_token = 1", "max_token", "max_tokens"),
        ("max_turns = 1", "max_turns", "limits.max_turns"),
        ("baseurl = 'x'", "baseurl", "base_url"),
        ("anthropic.baseurl = 'x'", "anthropic.baseurl", "anthropic.base_url"),
        ("idle_ms = 1", "idle_ms", "connection.idle_ms"),
        ("retry.max_turns = 1", "retry.max_turns", "limits.max_turns"),
        ("limits.max_total_token = 1", "limits.max_total_token", "limits.max_total_tokens"),
        ("\"limits.max_turns\" = 1", "\"limits.max_turns\"", "limits.max_turns"),
    ] {
        let column = if name.contains('.') && !name.starts_with('"') { name.find('.').unwrap() + 2 } else { 1 };
        refused(text, &[&format!("1:{column}: {}", meant(name, nearest))]);
    }
    refused("[limts]\nmax_turns = 1", &[&format!("1:2: {}", meant("limts", "limits"))]);
    refused("limt = { max_turns = 1 }", &[&format!("1:1: {}", meant("limt", "limits"))]);
    let nothing = "`playhouse config show` lists what there is";
    refused("colour = true", &[&format!("1:1: there is no key `colour`: {nothing}")]);
    refused("\"\" = true", &[&format!("1:1: there is no key `\"\"`: {nothing}")]);
    refused("[a.b.c.d]\ne = 1", &[&format!("1:2: there is no key `a`: {nothing}")]);
    refused("[limits.a.b]\nc = 1", &[&format!("1:9: there is no key `limits.a`: {nothing}")]);
    refused(
        &format!("{} = 1", "x".repeat(100_000)),
        &[&format!("1:1: there is no key `{}`: {nothing}", "x".repeat(60))],
    );
}

#[test]
fn the_key_of_a_service_does_not_belong_in_a_file() {
    let instead = "does not belong in a file: set the service's own variable instead, such as OPENAI_API_KEY";
    for name in ["api_key", "openai_api_key", "API-KEY", "token", "secret", "password"] {
        refused(&format!("{name} = 'x'"), &[&format!("1:1: `{name}` {instead}")]);
    }
    refused("[openai]\napi_key = 'x'", &[&format!("2:1: `openai.api_key` {instead}")]);
}

#[test]
fn a_value_of_the_wrong_kind_is_named_with_what_is_expected() {
    let whole = "it takes a whole number from 1 to 4294967295, or `none`";
    for value in ["'many'", "0", "-1", "1.0", "true", "4294967296", "[1]", "{}", "1979-05-27", "'None'", "''"] {
        let value = value.replace('\'', "\"");
        refused(&format!("[limits]\nmax_turns = {value}"), &[&format!("2:13: limits.max_turns is {value}: {whole}")]);
    }
    refused("[limits.max_turns]\nx = 1", &[&format!("1:9: limits.max_turns is a table: {whole}")]);
    refused("[[limits.max_turns]]", &[&format!("1:10: limits.max_turns is a table: {whole}")]);
    let section = "`limits` is a section: write [limits] on a line of its own, and its keys below";
    refused("limits = 3", &[&format!("1:1: {section}")]);
    refused("[[limits]]\nmax_turns = 1", &[&format!("1:3: {section}")]);

    let bad = |key: &str, value: &str, takes: &str| {
        refused(&format!("{key} = {value}"), &[&format!("1:{}: {key} is {value}: it takes {takes}", key.len() + 4)]);
    };
    let model = "a model such as `openai/gpt-5` or `scripted/FILE`, or several in the order they are asked";
    bad("model", "3", model);
    bad("model", "[]", model);
    bad("model", "[\"openai/x\", 1]", model);
    bad("base_url", "3", "the base URL of a service, such as `https://api.openai.com/v1`");
    bad("cache", "true", "`auto` or `off`");
    bad("cache", "\"on\"", "`auto` or `off`");
    for key in ["azure.api_version", "vertex.project", "vertex.region", "bedrock.region"] {
        for value in ["\"\"", "\"a b\"", "\"a/b\"", "\"..\"", "3"] {
            bad(key, value, "a name of letters, digits, `-`, `_`, `.` and `:`");
        }
    }
    for value in ["0", "-1", "1.5", "\"many\""] {
        for key in ["connection.concurrency", "connection.requests_per_minute"] {
            bad(key, value, "a whole number from 1 to 4294967295, or `none`");
        }
        bad("connection.tokens_per_minute", value, "a whole number from 1, or `none`");
        bad("connection.breaker_failures", value, "a whole number from 1 to 4294967295");
        for key in ["breaker_pause_ms", "connect_ms", "first_event_ms", "idle_ms"] {
            bad(&format!("connection.{key}"), value, "milliseconds, a whole number from 1 to 86400000");
        }
        bad("connection.total_ms", value, "milliseconds, a whole number from 1 to 86400000, or `none`");
    }
    bad("connection.idle_ms", "86400001", "milliseconds, a whole number from 1 to 86400000");
    bad("system", "3", "a string");
    let tools = "a list of `read_file`, `list_files`, `search`, `edit_file`, `write_file`, `bash`, `sub_agent`";
    bad("tools", "\"bash\"", tools);
    bad("tools", "[\"bash\", 1]", tools);
    bad("permission", "\"sometimes\"", "`strict`, `ask`, `auto-safe` or `yolo`");
    bad("permission", "false", "`strict`, `ask`, `auto-safe` or `yolo`");
    bad("durability", "\"Flush\"", "`flush`, `os` or `none`");
    bad("data_dir", "1", "a folder");
    bad("data_dir", "\"\"", "a folder");
    bad("thinking", "\"hard\"", "`off`, `minimal`, `low`, `medium` or `high`");
    for value in ["0", "\"none\"", "-5", "2.5", "4294967296"] {
        bad("max_tokens", value, "a whole number from 1 to 4294967295");
    }
    for value in ["-0.1", "2.1", "nan", "inf", "\"1\""] {
        bad("temperature", value, "a number from 0 to 2");
    }
    for value in ["\"batched\"", "\"batched:0\"", "\"batched:-1\"", "\"batched:1001\"", "2"] {
        bad("tool_execution", value, "`parallel`, `sequential` or `batched:N`");
    }
    bad("limits.max_total_tokens", "0", "a whole number from 1, or `none`");
    for value in ["600", "\"10\"", "\"0s\"", "\"-3s\"", "\"8761h\"", "\"soon\"", "\"99999999999999999999h\""] {
        bad("limits.max_duration", value, "a time such as `90s` or `1h 30m`, at most `8760h`, or `none`");
    }
    bad("retry.max_retries", "-1", "a whole number from 0 to 4294967295");
    bad("retry.initial_delay_ms", "86400001", "milliseconds, a whole number from 0 to 86400000");
    bad("retry.max_delay_ms", "1.5", "milliseconds, a whole number from 0 to 86400000");
    for value in ["0.5", "-inf", "1001"] {
        bad("retry.backoff_multiplier", value, "a number from 1 to 1000");
    }
    let long = format!("\"{}\"", "é".repeat(10_000));
    refused(
        &format!("permission = {long}"),
        &[&format!("1:14: permission is \"{}…: it takes `strict`, `ask`, `auto-safe` or `yolo`", "é".repeat(59))],
    );
}

#[test]
fn a_value_that_cannot_be_used_says_why() {
    let listed = "`playhouse models` lists the providers";
    let unusable = |key: &str, value: &str, why: &str| {
        refused(&format!("{key} = {value}"), &[&format!("1:{}: {key}: {why}", key.len() + 4)]);
    };
    unusable(
        "model",
        "'gpt'",
        &format!("`gpt` names no model: did you mean `gpt-5`? else write PROVIDER/ID, as in openai/gpt-5; {listed}"),
    );
    let meant = |name: &str, near: &str| format!("there is no provider `{name}`: did you mean `{near}`? {listed}");
    unusable("model", "'mistrall/x'", &meant("mistrall", "mistral"));
    unusable("model", "'openai/x,antropic/y'", &meant("antropic", "anthropic"));
    unusable("model", "['openai/x', 'gorq/y']", &meant("gorq", "groq"));
    unusable("model", "'nobody-we-know/y'", &format!("there is no provider `nobody-we-know`: {listed}"));
    unusable("model", "'openai/x,'", "nothing follows the last comma: name another model, or leave it out");
    unusable("model", "'openai/'", "`openai/` needs the model's id, as in openai/gpt-5");
    let tools = "the tools are: read_file, list_files, search, edit_file, write_file, bash, sub_agent";
    unusable(
        "tools",
        "['bash', 'raed_file']",
        &format!("there is no tool `raed_file` (did you mean `read_file`?); {tools}"),
    );
    unusable("tools", "['']", &format!("there is no tool ``; {tools}"));
    unusable("data_dir", "'~/x'", "`~` is not replaced here: write ${HOME}");
    let url = |why: &str| format!("this base URL cannot be used: {why}");
    let scheme = url("it starts with http:// or https:// and names a host");
    for value in ["'nonsense'", "'ftp://a/v1'", "'http://'", "'http:///v1'", "'http://a /v1'", "''"] {
        unusable("openai.base_url", value, &scheme);
    }
    let password = url("a user name or password in it would be written to the journal");
    unusable("openai.base_url", "'https://u:p@a/v1'", &password);
    unusable("openai.base_url", "'https://a/v1?key=x'", &url("it must not have a `?` or `#` part"));
    unusable("base_url", "'https://u:p@a/v1'", &password);
    unusable("ollama.base_url", "'localhost'", &scheme);
}

#[test]
fn what_is_said_of_a_model_is_looked_at() {
    let section = "models.\"openai/x\"";
    let model = |line: &str, problem: &str| {
        refused(&format!("[{section}]\n{line}\ninput = 1\noutput = 1\n"), &[&format!("2:{problem}")]);
    };
    let bad = |key: &str, value: &str, takes: &str| {
        model(&format!("{key} = {value}"), &format!("{}: {section}.{key} is {value}: it takes {takes}", key.len() + 4));
    };
    for value in ["0", "-1", "1.5", "1000000001", "\"big\""] {
        bad("context_window", value, "a whole number from 1 to 1000000000");
    }
    for value in ["0", "4294967296"] {
        bad("max_tokens", value, "a whole number from 1 to 4294967295");
    }
    for value in ["-0.1", "10000.1", "nan", "inf", "\"1\"", "[1]"] {
        bad("cache_read", value, "dollars for a million tokens, a number from 0 to 10000");
    }
    model("ouput = 1", &format!("1: {section}.ouput: there is no such key: did you mean `output`?"));
    for value in ["\"short\"", "1"] {
        bad("reasoning_summary", value, "`auto`, `concise`, `detailed` or `none`");
    }
    let formats = "`any`, `none` or a list of formats such as [\"image/png\", \"image/jpeg\"]";
    for value in ["\"png\"", "[]", "[\"png\"]", "true"] {
        bad("images", value, formats);
    }
    let keys = "context_window, max_tokens, reasoning_summary, images, input, output, cache_read, cache_write";
    model("colour = 1", &format!("1: {section}.colour: there is no such key: there is {keys}"));
    let instead = "does not belong in a file: set the service's own variable instead, such as OPENAI_API_KEY";
    model("api_key = 'x'", &format!("1: `{section}.api_key` {instead}"));
    let both = "prices need both `input` and `output`: add what is missing";
    for line in ["input = 1", "output = 1", "cache_write = 1"] {
        refused(&format!("[{section}]\n{line}"), &[&format!("1:9: {section}: {both}")]);
    }
    let listed = "`playhouse models` lists the providers";
    refused(
        "[models.'opnai/x']\ninput = 1",
        &[&format!("1:9: models.\"opnai/x\": there is no provider `opnai`: did you mean `openai`? {listed}")],
    );
    refused(
        "[models.'scripted/x']",
        &["1:9: models.\"scripted/x\": a script has no limits and no price: leave it out"],
    );
    let line = "a section: write [models.\"openai/x\"] on a line of its own, and its keys below";
    refused("models.'openai/x' = 1", &[&format!("1:8: `models.\"openai/x\"` is {line}")]);
    refused("models = 1", &["1:1: `models` is a section: write [models] on a line of its own, and its keys below"]);
}

#[test]
fn headers_are_looked_at_and_none_holds_a_key() {
    let instead = "does not belong in a file: set the service's own variable instead, such as OPENAI_API_KEY";
    for name in ["authorization", "Authorization", "x-api-key", "Cookie", "x-auth-token"] {
        refused(
            &format!("[providers.groq.headers]\n{name} = 'sk-canary'"),
            &[&format!("2:1: `providers.groq.headers.{name}` {instead}")],
        );
    }
    refused("[providers.groq]\napi_key = 'x'", &[&format!("2:1: `providers.groq.api_key` {instead}")]);
    refused(
        "[providers.groq]\nheader = 'x'",
        &["2:1: providers.groq.header: there is no such key: did you mean `headers`?"],
    );
    refused(
        "[providers.groq]\nheaders = 'x'",
        &["2:1: providers.groq.headers: it takes headers by name, as in { \"anthropic-beta\" = \"…\" }"],
    );
    refused(
        "[providers.groq.headers]\n'a b' = 'x'",
        &["2:1: providers.groq.headers.\"a b\": that is no name of a header"],
    );
    for value in ["\"é\"", "\"a\\nb\"", "1"] {
        refused(
            &format!("[providers.groq.headers]\nx-a = {value}"),
            &[&format!("2:7: providers.groq.headers.x-a is {value}: it takes a string of plain characters")],
        );
    }
    let secret = "the variable GROQ_API_KEY looks like a secret, and settings are written to the journal: leave it out";
    refused(
        "[providers.groq.headers]\nx-a = '${GROQ_API_KEY}'",
        &[&format!("2:7: providers.groq.headers.x-a: {secret}")],
    );
    let listed = "`playhouse models` lists the providers";
    refused(
        "[providers.gorq.headers]\nx = 'y'",
        &[&format!("1:12: providers.gorq: there is no provider `gorq`: did you mean `groq`? {listed}")],
    );
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let mut place = Place::new();
    place.user("modle = 'x'\ntools = 1\n[limits]\nmax_turns = 0");
    place.project("system = 3\npermission = 'yolo'");
    place.set("PLAYHOUSE_MODLE", "x");
    let (user, project) = (place.user_file(), place.project_file());
    let (user, project) = (user.display(), project.display());
    let problems = [
        format!("{user}:1:1: there is no key `modle`: did you mean `model`?"),
        format!(
            "{user}:2:9: tools is 1: it takes a list of `read_file`, `list_files`, `search`, `edit_file`, `write_file`, `bash`, `sub_agent`"
        ),
        format!("{user}:4:13: limits.max_turns is 0: it takes a whole number from 1 to 4294967295, or `none`"),
        format!("{project}:1:10: system is 3: it takes a string"),
        format!(
            "{project}:2:14: a project's file may not set permission to this, since whether tools run without asking \
             is the user's to say: set it in your own file, or with PLAYHOUSE_PERMISSION or --permission"
        ),
        "playhouse has no variable PLAYHOUSE_MODLE: did you mean PLAYHOUSE_MODEL?".to_owned(),
        "--max-turns is \"0\": it takes a whole number from 1 to 4294967295, or `none`".to_owned(),
    ];
    let problems: Vec<&str> = problems.iter().map(String::as_str).collect();
    place.run(&["config", "show", "--max-turns", "0"]).refused(&problems);
    place.run(&["run", "hi", "--max-turns", "0"]).refused(&problems);
    assert!(!place.home().join("data").exists(), "nothing was made");
}
