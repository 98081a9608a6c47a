//! The secrets in the environment of this process.

use playhouse_protocol::Secret;
use playhouse_tools::is_secret;

/// The settings whose variables have names like a secret's; their values are numbers.
const SETTINGS: [&str; 3] =
    ["PLAYHOUSE_MAX_TOKENS", "PLAYHOUSE_CONNECTION_TOKENS_PER_MINUTE", "PLAYHOUSE_LIMITS_MAX_TOTAL_TOKENS"];

/// The variables whose names say that their values are secrets, by name; our own settings, such as
/// `PLAYHOUSE_MAX_TOKENS`, are none.
pub fn environment_secrets() -> Vec<(String, Secret)> {
    let named =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut secrets: Vec<(String, String)> = named.filter(|(name, _)| is_secret(name) && !is_setting(name)).collect();
    // A value with two names has the same one in every process.
    secrets.sort();
    secrets.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
}

fn is_setting(name: &str) -> bool {
    SETTINGS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_settings_are_no_secrets() {
        assert!(is_secret("PLAYHOUSE_MAX_TOKENS") && is_setting("PLAYHOUSE_MAX_TOKENS"));
        assert!(!is_setting("PLAYHOUSE_TOKEN"));
    }

    #[cfg(feature = "config")]
    #[test]
    fn every_setting_with_a_name_like_a_secrets_is_listed() {
        let variables = crate::config::keys().iter().map(crate::config::Key::variable);
        assert_eq!(variables.filter(|name| is_secret(name)).collect::<Vec<_>>(), SETTINGS);
    }
}
