use serde_json::json;

use super::*;

const VALUE: &str = "s3cr3t/va+lue=\"9\"";

fn one() -> Secrets {
    Secrets::new([("API_KEY", Secret::new(VALUE))])
}

#[test]
fn f52_a_known_value_becomes_its_name_in_every_spelling() {
    let secrets = one();
    let clean = |text: &str| secrets.redact(text).into_owned();
    assert_eq!(clean(&format!("a {VALUE} b {VALUE}")), "a [secret:API_KEY] b [secret:API_KEY]");
    assert_eq!(clean(&json!({ "k": VALUE }).to_string()), r#"{"k":"[secret:API_KEY]"}"#);
    assert_eq!(clean("?k=s3cr3t%2Fva%2Blue%3D%229%22&x"), "?k=[secret:API_KEY]&x");
    assert_eq!(clean(&format!("is {}.", STANDARD.encode(VALUE))), "is [secret:API_KEY].");
    // Wherever it stands in what was encoded: all that is left of it is the part of a character at either end.
    for before in ["u:", "us:", "use:", "user:"] {
        for after in ["", "\n", "ab"] {
            let encoded = STANDARD.encode(format!("{before}{VALUE}{after}"));
            for encoded in [encoded.replace('+', "-").replace('/', "_"), encoded] {
                let clean = clean(&encoded);
                assert!(clean.contains("[secret:API_KEY]"), "{before} {after}: {clean}");
                assert!(clean.len() <= "[secret:API_KEY]".len() + 16, "{before} {after}: {clean}");
            }
        }
    }
    assert!(matches!(secrets.redact("s3cr3t/va+lue"), Cow::Borrowed(_)));
}

#[test]
fn f52_names_are_stable_and_say_nothing_of_the_value() {
    assert_eq!(placeholder("OPENAI_API_KEY"), "[secret:OPENAI_API_KEY]");
    assert_eq!(placeholder("a b]\n[c"), "[secret:a_b___c]");
    let both = Secrets::new([("A_KEY", Secret::new(VALUE)), ("B_KEY", Secret::new(VALUE))]);
    assert_eq!(both.redact(VALUE), "[secret:A_KEY]");
    let longer = format!("{VALUE}-and-more");
    let both = Secrets::new([("SHORT", Secret::new(VALUE)), ("LONG", Secret::new(longer.as_str()))]);
    assert_eq!(both.redact(&format!("{longer} {VALUE}-and")), "[secret:LONG] [secret:SHORT]-and");
    assert_eq!(both.redact(&both.redact(&longer)), "[secret:LONG]");
    let shown = format!("{both:?}");
    assert!(!shown.contains("s3cr3t"), "{shown}");
}

#[test]
fn f52_what_would_be_found_everywhere_is_left_alone() {
    for plain in ["short", "1234567", "password", "ChangeMe", "aaaaaaaaaaaa", "        x       "] {
        assert!(Secrets::new([("K", Secret::new(plain))]).is_empty(), "{plain}");
    }
    // The value is another's name: taking it out would spoil the placeholder.
    let named = Secrets::new([("KEY_NAME", Secret::new("OPENAI_API_KEY")), ("OPENAI_API_KEY", Secret::new(VALUE))]);
    assert_eq!(named.redact(&format!("OPENAI_API_KEY={VALUE}")), "OPENAI_API_KEY=[secret:OPENAI_API_KEY]");
    assert_eq!(Secrets::new([("K", Secret::new(" 8 chars\n"))]).redact("x8 charsx"), "x8 charsx");
    assert_eq!(Secrets::new([("K", Secret::new(" 8 chars!\n"))]).redact("x8 chars!x"), "x[secret:K]x");
}

#[test]
fn f52_lines_of_a_key_are_found_by_themselves() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n-----END PRIVATE KEY-----\n";
    let secrets = Secrets::new([("DEPLOY_KEY", Secret::new(key))]);
    assert_eq!(secrets.redact(key), "[secret:DEPLOY_KEY]\n");
    assert_eq!(secrets.redact("2: MIIEvQIBADANBgkqhkiG9w0"), "2: [secret:DEPLOY_KEY]");
    assert_eq!(secrets.redact("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
}

#[test]
fn f52_json_is_cleaned_to_its_last_string_and_name() {
    let mut value = json!({"a": [VALUE, 1, null, {"b": format!("x{VALUE}")}], VALUE: true});
    one().redact_json(&mut value);
    assert_eq!(
        value,
        json!({"a": ["[secret:API_KEY]", 1, null, {"b": "x[secret:API_KEY]"}], "[secret:API_KEY]": true})
    );
}

#[test]
fn placeholders_are_found_in_a_text() {
    let found: Vec<&str> = placeholders("a [secret:A_KEY] [secret:] [secret:x y] [secret:b-1] [secret:c").collect();
    assert_eq!(found, ["[secret:A_KEY]", "[secret:b-1]"]);
    let long = format!("{OPEN}{}]", "x".repeat(65));
    assert_eq!(placeholders(&long).count(), 0);
    assert_eq!(placeholders(&placeholder(&"ü".repeat(99))).count(), 1);
}

#[test]
fn f52_a_text_in_pieces_is_cleaned_as_a_whole_one() {
    let secrets = Secrets::new([
        ("A", Secret::new("abcabcabd")),
        ("B", Secret::new("abcabcabdabcabcabe")),
        ("C", Secret::new("bdabcabcz-ü-")),
    ]);
    let parts = ["abc", "abd", "abe", "bdabcabc", "z-ü-", "[secret:", "A]", "abcabcabd", " ", "YWJj", "\u{0}"];
    for seed in 0..5_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let text: String = (0..random.usize(0..40)).map(|_| parts[random.usize(0..parts.len())]).collect();
        let mut redactor = secrets.redactor();
        let (mut bytes, mut clean) = (text.as_bytes(), Vec::new());
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(random.usize(1..=bytes.len().min(9)));
            clean.extend_from_slice(&redactor.push(piece));
            bytes = rest;
        }
        clean.extend(redactor.finish());
        let whole = secrets.redact(&text);
        assert_eq!(String::from_utf8(clean).unwrap(), whole, "seed {seed}: {text:?}");
        assert!(!whole.contains("abcabcabd"), "seed {seed}");
        assert_eq!(secrets.redact(&whole), whole, "seed {seed}");
    }
}

#[test]
fn what_cannot_become_a_secret_is_not_kept_back() {
    let mut redactor = one().redactor();
    assert_eq!(&*redactor.push(b"Name: s3cr"), b"Name: ");
    assert_eq!(&*redactor.push(b"eam\n"), b"s3cream\n");
    assert_eq!(redactor.finish(), b"");
    let mut redactor = Secrets::default().redactor();
    assert!(matches!(redactor.push(b"s3cr"), Cow::Borrowed(b"s3cr")));
}

#[test]
fn f52_a_vault_publishes_what_it_learns_and_forgets_only_what_passes() {
    let vault = Vault::default();
    let before = vault.secrets();
    vault.learn_all([("LASTING", Secret::new(VALUE))]);
    assert_eq!((before.is_empty(), &*vault.secrets().redact(VALUE)), (true, "[secret:LASTING]"));
    // The same value under another name: the first name counts.
    vault.learn("other", &Secret::new(VALUE));
    assert_eq!(vault.secrets().redact(VALUE), "[secret:LASTING]");
    for number in 0..=REMEMBERED {
        vault.learn("token", &Secret::new(format!("token-number-{number:06}")));
    }
    let secrets = vault.secrets();
    assert_eq!(secrets.redact("token-number-000000 token-number-000001"), "token-number-000000 [secret:token]");
    assert_eq!(secrets.redact(VALUE), "[secret:LASTING]");
}

/// A value as something else writes it.
fn spelled(value: &str, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut hex = |number: u32, width: usize| {
        let text = format!("{number:0width$x}");
        text.chars().map(|c| if random.bool() { c.to_ascii_uppercase() } else { c }).collect::<String>()
    };
    let mut all = String::new();
    let mut choice = fastrand::Rng::with_seed(seed + 1);
    // One kind for a text, as one program writes it.
    let kind = choice.u8(0..5);
    for c in value.chars() {
        let code = u32::from(c);
        match (kind, c.is_ascii_alphanumeric() && choice.u8(0..8) > 0) {
            (_, true) => all.push(c),
            (0, _) if c == ' ' && choice.bool() => all.push('+'),
            (0, _) => c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| all.push_str(&format!("%{}", hex(b.into(), 2)))),
            (1, _) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|u| all.push_str(&format!("\\u{}", hex(u32::from(*u), 4))))
            }
            (2, _) => all.push_str(&format!("&#x{};", hex(code, 2))),
            (3, _) => all.push_str(&format!("&#{code};")),
            (_, _) => all.push_str(&match c {
                '"' | '/' | '\\' => format!("\\{c}"),
                '\n' => "\\n".to_owned(),
                c => c.to_string(),
            }),
        }
    }
    all
}

#[test]
fn f52_a_known_value_is_found_however_it_is_escaped() {
    let value = "s3cr3t/va+lue=\"9\" <&'é🦀>\\ x";
    let secrets = Secrets::new([("API_KEY", Secret::new(value))]);
    for seed in 0..1_000 {
        let text = format!("a={}&b", spelled(value, seed));
        assert_eq!(secrets.redact(&text), "a=[secret:API_KEY]&b", "seed {seed}: {text}");
        let mut redactor = secrets.redactor();
        let mut clean: Vec<u8> = text.bytes().flat_map(|byte| redactor.push(&[byte]).into_owned()).collect();
        clean.extend(redactor.finish());
        assert_eq!(String::from_utf8_lossy(&clean), "a=[secret:API_KEY]&b", "seed {seed}: {text}");
    }
    let within = json!({"a": json!({"b": json!({"c": value}).to_string()}).to_string()}).to_string();
    assert!(secrets.redact(&within).contains("[secret:API_KEY]"), "{within}");
    let html = "s3cr3t/va+lue=&quot;9&quot; &lt;&amp;&#39;é🦀&gt;\\ x";
    assert_eq!(secrets.redact(html), "[secret:API_KEY]");
}

#[test]
fn f52_base64_is_found_over_several_lines() {
    let secrets = one();
    for before in 0..80 {
        let encoded = STANDARD.encode(format!("{}{VALUE}{}", "u".repeat(before), "and more".repeat(20)));
        for (width, end) in [(76, "\n"), (64, "\r\n"), (60, "\n  "), (76, "\\n"), (76, "\\r\\n"), (7, "\n")] {
            let lines: Vec<&str> =
                encoded.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
            let text = lines.join(end);
            let clean = secrets.redact(&text);
            assert!(clean.contains("[secret:API_KEY]"), "{before} {width} {end:?}: {text}");
            let mut redactor = secrets.redactor();
            let mut pieces: Vec<u8> =
                text.as_bytes().chunks(5).flat_map(|piece| redactor.push(piece).into_owned()).collect();
            pieces.extend(redactor.finish());
            assert_eq!(String::from_utf8_lossy(&pieces), clean, "{before} {width} {end:?}");
        }
    }
}

#[test]
fn what_only_resembles_a_secret_stays() {
    let secrets = one();
    for text in ["s3cr3t%2Fva%2", "100% \\n & co", "&amp;&lt;", "\\u00", "%%%", "s3cr3t&#47;va&#4", "czNjcjN0\nL3Zh"] {
        assert!(matches!(secrets.redact(text), Cow::Borrowed(_)), "{text}");
        let mut redactor = secrets.redactor();
        let mut clean: Vec<u8> = text.bytes().flat_map(|byte| redactor.push(&[byte]).into_owned()).collect();
        clean.extend(redactor.finish());
        assert_eq!(String::from_utf8_lossy(&clean), text);
    }
}

/// Each of these texts was once looked at from each of its places to its end, which took hours.
#[test]
fn f52_the_time_that_a_text_takes_grows_with_its_length_alone() {
    let begun = std::time::Instant::now();
    let secrets = Secrets::new([("API_KEY", Secret::new("plain-text-0123456789")), ("OTHER", Secret::new(VALUE))]);
    let many = "plain-text-0123456789".repeat(50_000);
    assert_eq!(secrets.redact(&many), "[secret:API_KEY]".repeat(50_000));
    let mut redactor = secrets.redactor();
    let mut clean = redactor.push(many.as_bytes()).into_owned();
    clean.extend(redactor.finish());
    assert!(clean == "[secret:API_KEY]".repeat(50_000).into_bytes());
    let slashes = "\\".repeat(1_000_000);
    assert!(matches!(secrets.redact(&slashes), Cow::Borrowed(_)));
    assert!(begun.elapsed() < std::time::Duration::from_secs(120), "{:?}", begun.elapsed());
}
