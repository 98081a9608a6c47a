use std::sync::Arc;

use playhouse_protocol::AgentMessage;

use super::*;
use crate::PRESETS;
use crate::testing::config;

fn message(content: Vec<Content>) -> Arc<AgentMessage> {
    Arc::new(AgentMessage::from(Message::User { content, timestamp: 0 }))
}

fn picture(bytes: usize, mime_type: &str) -> Content {
    Content::Image { data: "A".repeat(bytes.div_ceil(3) * 4), mime_type: mime_type.to_owned() }
}

/// What is said of these pictures at a service, by its example of a model.
fn refusal(provider: &str, pictures: Vec<Content>) -> Option<String> {
    let preset = PRESETS.iter().find(|preset| preset.name == provider).unwrap();
    refusal_by(preset.model(preset.example, |_| None), pictures)
}

fn refusal_by(model: ModelConfig, pictures: Vec<Content>) -> Option<String> {
    let mut config = config("hi");
    config.model_config = Arc::new(model);
    config.messages.push(message(pictures));
    match check(&config) {
        Ok(()) => None,
        Err(ProviderError::Picture { message }) => Some(message),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn the_table_is_held_row_by_row() {
    for (provider, part, limits) in LIMITS {
        let preset = PRESETS.iter().find(|preset| preset.name == *provider).unwrap();
        let model = preset.model(&format!("x{part}x"), |_| None);
        assert_eq!(limits_of(&model), Some(*limits), "{provider} {part}");
        let refused = |pictures| refusal_by(model.clone(), pictures);
        for format in limits.formats {
            assert_eq!(refused(vec![picture(10, format)]), None, "{provider} {format}");
        }
        let told = refused(vec![picture(10, "image/tiff")]).unwrap();
        assert!(told.contains("image/tiff") && told.contains(provider), "{told}");
        let format = limits.formats[0];
        if let Some(size) = limits.bytes {
            let most = match size {
                Size::File(most) => most,
                Size::Base64(most) => most / 4 * 3,
            };
            let most = usize::try_from(most).unwrap();
            assert_eq!(refused(vec![picture(most - 3, format)]), None, "{provider}");
            let told = refused(vec![picture(most + 6, format)]).unwrap();
            assert!(told.contains("a picture is") && told.contains("MB"), "{told}");
        }
        if let Some(most) = limits.count {
            assert_eq!(refused(vec![picture(1, format); most]), None, "{provider}");
            let told = refused(vec![picture(1, format); most + 1]).unwrap();
            assert!(told.contains(&format!("has {} pictures, and at most {most}", most + 1)), "{told}");
        }
        if let Some(most) = limits.total {
            // In pieces that are small enough by themselves.
            let pieces = usize::try_from(most / MB).unwrap().min(limits.count.unwrap_or(usize::MAX));
            let piece = usize::try_from(most).unwrap() / pieces / 4 * 3;
            assert_eq!(refused(vec![picture(piece - 3, format); pieces]), None, "{provider}");
            let told = refused(vec![picture(piece + 30, format); pieces]).unwrap();
            assert!(told.contains("the pictures of the conversation are"), "{told}");
        }
    }
}

#[test]
fn pixels_are_counted_where_they_are_limited() {
    use base64::Engine;
    let of = |side: u32| {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend(side.to_be_bytes());
        png.extend(7_u32.to_be_bytes());
        png.extend([8, 2, 0, 0, 0]);
        let data = base64::engine::general_purpose::STANDARD.encode(png);
        Content::Image { data, mime_type: "image/png".to_owned() }
    };
    for provider in ["anthropic", "bedrock"] {
        assert_eq!(refusal(provider, vec![of(8_000)]), None);
        let told = refusal(provider, vec![of(8_001)]).unwrap();
        assert!(told.starts_with("a picture is 8001 pixels long, and at most 8000 are taken"), "{told}");
    }
    assert_eq!(refusal("openai", vec![of(8_001)]), None);
    assert_eq!(refusal("anthropic", vec![of(2_001); 20]), None);
    let told = refusal("anthropic", vec![of(2_001); 21]).unwrap();
    assert!(told.contains("at most 2000 are taken with more than 20 pictures"), "{told}");
}

#[test]
fn a_model_with_a_small_window_takes_fewer() {
    let told = refusal("anthropic", vec![picture(1, "image/png"); 101]).unwrap();
    assert!(told.contains("has 101 pictures, and at most 100 are taken at once"), "{told}");
    let preset = PRESETS.iter().find(|preset| preset.name == "anthropic").unwrap();
    let larger = ModelConfig { context_window: Some(1_000_000), ..preset.model("claude-opus-5", |_| None) };
    assert_eq!(refusal_by(larger.clone(), vec![picture(1, "image/png"); 600]), None);
    assert!(refusal_by(larger, vec![picture(1, "image/png"); 601]).is_some());
}

#[test]
fn what_is_not_known_of_a_service_is_not_checked() {
    assert_eq!(refusal("ollama", vec![picture(60_000_000, "image/tiff")]), None);
}
