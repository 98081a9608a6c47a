//! The shared configuration files of AWS's tools.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::Environment;

/// The settings of one section.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Section(BTreeMap<String, String>);

impl fmt::Debug for Section {
    /// The names alone: a value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Section {
    /// A setting that is not empty.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// What both files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profiles {
    /// The profile in use.
    pub(super) selected: String,
    /// Somebody named it: it must be there.
    pub(super) named: bool,
    profiles: BTreeMap<String, Section>,
    sso_sessions: BTreeMap<String, Section>,
}

/// Which of the two files. They write the names of profiles differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Config,
    Credentials,
}

impl Profiles {
    /// Reads both files. One that is not there is empty; one that cannot be read is an error that says where.
    pub(super) fn read(environment: &Environment) -> Result<Self, String> {
        let named = environment.get("AWS_PROFILE").or_else(|| environment.get("AWS_DEFAULT_PROFILE"));
        let mut profiles =
            Self { named: named.is_some(), selected: named.unwrap_or_else(|| "default".to_owned()), ..Self::default() };
        let files = [
            (File::Config, "AWS_CONFIG_FILE", ".aws/config"),
            // Later in line: what both say, this one says.
            (File::Credentials, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
        ];
        for (file, variable, default) in files {
            let path = match environment.get(variable) {
                Some(path) => Some(PathBuf::from(path)),
                None => environment.home().map(|home| home.join(default)),
            };
            let Some(path) = path else { continue };
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
            };
            profiles.add(file, &text).map_err(|line| {
                format!("{}, line {line}, is neither a `[section]` nor a `key = value`: correct it", path.display())
            })?;
        }
        Ok(profiles)
    }

    /// Adds what a file says; the error is the number of the line that cannot be read.
    fn add(&mut self, file: File, text: &str) -> Result<(), usize> {
        let mut at: Option<&mut Section> = None;
        for (number, line) in text.lines().enumerate() {
            let content = line.trim();
            // An indented line belongs to a nested setting; none of those matter here.
            let nested = line.starts_with([' ', '\t']);
            if content.is_empty() || content.starts_with(['#', ';']) || nested {
                continue;
            }
            if let Some(rest) = content.strip_prefix('[') {
                let (name, _) = rest.split_once(']').ok_or(number + 1)?;
                at = self.section(file, name.trim());
                continue;
            }
            let (key, value) = content.split_once('=').ok_or(number + 1)?;
            let value = value.split(" #").next().unwrap_or_default();
            let value = value.split(" ;").next().unwrap_or_default();
            if let Some(section) = at.as_mut() {
                section.0.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
            }
        }
        Ok(())
    }

    /// The section of a heading; `None` for one that does not matter.
    fn section(&mut self, file: File, heading: &str) -> Option<&mut Section> {
        let (kind, name) = match heading.split_once(char::is_whitespace) {
            Some((kind, name)) => (Some(kind), name.trim()),
            None => (None, heading),
        };
        match (file, kind) {
            (File::Credentials, None) | (File::Config, Some("profile")) => {
                Some(self.profiles.entry(name.to_owned()).or_default())
            }
            (File::Config, None) if name == "default" => Some(self.profiles.entry(name.to_owned()).or_default()),
            (File::Config, Some("sso-session")) => Some(self.sso_sessions.entry(name.to_owned()).or_default()),
            (File::Config | File::Credentials, _) => None,
        }
    }

    pub(super) fn profile(&self, name: &str) -> Option<&Section> {
        self.profiles.get(name)
    }

    pub(super) fn sso_session(&self, name: &str) -> Option<&Section> {
        self.sso_sessions.get(name)
    }

    /// The region of the profile in use.
    pub(super) fn region(&self) -> Option<String> {
        self.profile(&self.selected)?.get("region").map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(config: &str, credentials: &str) -> Result<Profiles, usize> {
        let mut profiles = Profiles::default();
        profiles.add(File::Config, config)?;
        profiles.add(File::Credentials, credentials)?;
        Ok(profiles)
    }

    #[test]
    fn both_files_are_read_and_the_credentials_win() {
        let config = "# mine\n[default]\nregion = us-east-1 # near\ns3 =\n  max_concurrent_requests = 20\n\n\
            [profile dev]\nRegion=eu-west-1\naws_access_key_id = from-config\n[sso-session corp]\nsso_region = x\n\
            [services s]\nignored = 1\n[not a profile\u{e9}]\nregion = z\n";
        let credentials = "[default]\r\naws_access_key_id = AKIA1\r\naws_secret_access_key = a=b#c\r\n\r\n\
            ; more\n[dev]\naws_access_key_id = AKIA2\n";
        let profiles = parsed(config, credentials).unwrap();
        let default = profiles.profile("default").unwrap();
        assert_eq!(default.get("region"), Some("us-east-1"));
        assert_eq!((default.get("aws_access_key_id"), default.get("s3")), (Some("AKIA1"), None));
        assert_eq!(default.get("aws_secret_access_key"), Some("a=b#c"));
        assert_eq!(default.get("max_concurrent_requests"), None);
        let dev = profiles.profile("dev").unwrap();
        assert_eq!((dev.get("region"), dev.get("aws_access_key_id")), (Some("eu-west-1"), Some("AKIA2")));
        assert_eq!(profiles.sso_session("corp").unwrap().get("sso_region"), Some("x"));
        assert_eq!(profiles.profiles.len(), 2);
        assert!(!format!("{profiles:?}").contains("a=b#c"));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_by_its_number() {
        assert_eq!(parsed("[default]\nregion us-east-1\n", ""), Err(2));
        assert_eq!(parsed("", "\n\n[default\n"), Err(3));
    }
}
