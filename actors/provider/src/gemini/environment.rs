//! What the environment says about Google Cloud, read once and in one place.

use std::path::PathBuf;

use playhouse_protocol::Secret;

/// What the environment says; tests say it themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// `GOOGLE_APPLICATION_CREDENTIALS`: a file with credentials.
    pub(crate) credentials_file: Option<PathBuf>,
    /// Where `gcloud` keeps its files: `CLOUDSDK_CONFIG`, or its usual place.
    pub(crate) gcloud_dir: Option<PathBuf>,
    /// `GCE_METADATA_HOST`: a metadata server that is surely there.
    pub(crate) metadata_host: Option<String>,
    /// `GOOGLE_OAUTH_ACCESS_TOKEN`: a token, ready to use.
    pub(crate) token: Option<Secret>,
    /// `GOOGLE_CLOUD_PROJECT` or `GCLOUD_PROJECT`.
    pub(crate) project: Option<String>,
    /// `GOOGLE_CLOUD_QUOTA_PROJECT`: who pays, if not the project of the credentials.
    pub(crate) quota_project: Option<String>,
    /// `GOOGLE_CLOUD_LOCATION` or `GOOGLE_CLOUD_REGION`.
    pub(crate) region: Option<String>,
}

impl Environment {
    /// The variables of this process as they are now. Blank ones count as absent.
    pub(crate) fn read() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let usual = || {
            if cfg!(windows) {
                path("APPDATA").map(|dir| dir.join("gcloud"))
            } else {
                std::env::home_dir().map(|home| home.join(".config").join("gcloud"))
            }
        };
        Self {
            credentials_file: path("GOOGLE_APPLICATION_CREDENTIALS"),
            gcloud_dir: path("CLOUDSDK_CONFIG").or_else(usual),
            metadata_host: text("GCE_METADATA_HOST"),
            token: text("GOOGLE_OAUTH_ACCESS_TOKEN").map(Secret::new),
            project: text("GOOGLE_CLOUD_PROJECT").or_else(|| text("GCLOUD_PROJECT")),
            quota_project: text("GOOGLE_CLOUD_QUOTA_PROJECT"),
            region: text("GOOGLE_CLOUD_LOCATION").or_else(|| text("GOOGLE_CLOUD_REGION")),
        }
    }
}
