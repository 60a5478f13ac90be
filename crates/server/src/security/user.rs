//! A user as the metadata has it: its roles, the hashes of its passwords, what it may do by RESP where that was
//! said in Redis' words. Pure: hashing is [`super::passwords`]', and who may change a user is not decided here.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::faults::Fault;
use super::role::{SUPERUSER, check_name, metadata, texts};
use crate::settings::PASSWORD_BYTES_MAX;

/// The user of whoever does not say a name, and of the password in the settings.
pub const DEFAULT: &str = "default";
/// Its second name: what clients of Elasticsearch write by habit.
pub const ELASTIC: &str = "elastic";
/// Characters of a password, at the least, by REST. Elasticsearch's.
const PASSWORD_CHARS_MIN: usize = 6;
/// The most roles of a user.
const ROLES_MAX: usize = 32;
/// Bytes of a full name and of an e-mail address, at the most.
const TEXT_BYTES_MAX: usize = 1024;
/// How many passwords a user may have at once: the old one and the new one, while clients change over.
pub const PASSWORDS_MAX: usize = 2;

/// A user as it is kept. Fields that only a newer version knows are kept as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// Also the name under which it is kept.
    #[serde(skip)]
    pub name: String,
    /// Drawn when it is made: another user of the same name has another.
    #[serde(default)]
    pub id: String,
    /// The names of its roles.
    #[serde(default)]
    pub roles: Vec<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_name: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// What is noted of it.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Whether it may log in.
    #[serde(default)]
    pub enabled: bool,
    /// The hashes of its passwords, in the form that [`super::passwords`] writes; none: nobody logs in as it.
    #[serde(default)]
    pub passwords: Vec<String>,
    /// What it may do by RESP, in Redis' rules; none: what its roles allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Vec<String>>,
    /// What only a newer version knows.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl User {
    /// One that may do nothing yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            id: String::new(),
            roles: Vec::new(),
            full_name: None,
            email: None,
            metadata: Map::new(),
            enabled: true,
            passwords: Vec::new(),
            acl: None,
            unknown: Map::new(),
        }
    }

    /// The user that there is from the start: it may do everything.
    #[must_use]
    pub fn first() -> Self {
        Self { roles: vec![SUPERUSER.to_owned()], ..Self::new(DEFAULT) }
    }
}

/// A user's name as it is kept: `elastic` and `default` are one.
#[must_use]
pub fn kept_name(name: &str) -> &str {
    if name == ELASTIC { DEFAULT } else { name }
}

/// What a request says of a user; what it does not say stays as it is.
#[derive(Clone, Default, PartialEq)]
pub struct UserSpec {
    /// A new password.
    pub password: Option<String>,
    /// A new hash of one, as it is kept.
    pub password_hash: Option<String>,
    roles: Option<Vec<String>>,
    full_name: Option<String>,
    email: Option<String>,
    metadata: Option<Map<String, Value>>,
    enabled: Option<bool>,
}

impl UserSpec {
    /// Reads the body of `PUT /_security/user/NAME`.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse(body: &Map<String, Value>) -> Result<Self, Fault> {
        let mut spec = Self::default();
        for (field, value) in body {
            let text = || match value {
                Value::Null => Ok(None),
                Value::String(text) if text.len() <= TEXT_BYTES_MAX => Ok(Some(text.clone())),
                _ => Err(Fault(format!("[{field}] is a string of at most {TEXT_BYTES_MAX} bytes"))),
            };
            match field.as_str() {
                "username" => {}
                "password" => spec.password = text()?,
                "password_hash" => spec.password_hash = text()?,
                "roles" => spec.roles = Some(texts(value, "roles")?),
                "full_name" => spec.full_name = text()?,
                "email" => spec.email = text()?,
                "metadata" => spec.metadata = Some(metadata(value)?),
                "enabled" => {
                    let enabled = value.as_bool();
                    spec.enabled = Some(enabled.ok_or("[enabled] is [true] or [false]")?);
                }
                other => return Err(Fault(format!("unexpected field [{other}] in a user"))),
            }
        }
        if let Some(password) = &spec.password {
            check_password(password)?;
        }
        if spec.password.is_some() && spec.password_hash.is_some() {
            return Err("[password] and [password_hash] may not be given together".into());
        }
        let roles = spec.roles.iter().flatten();
        for (count, role) in roles.enumerate() {
            check_name("Role", role)?;
            if count >= ROLES_MAX {
                return Err(Fault(format!("a user has at most {ROLES_MAX} roles")));
            }
        }
        Ok(spec)
    }

    /// The user as it is after the change; `hash` is that of the new password.
    ///
    /// # Errors
    /// Where a new user has no password or no roles.
    pub fn change(
        self,
        before: Option<User>,
        name: &str,
        hash: Option<String>,
    ) -> Result<User, Fault> {
        let is_new = before.is_none();
        let mut user = before.unwrap_or_else(|| User::new(name));
        if let Some(hash) = hash.or(self.password_hash) {
            user.passwords = vec![hash];
        }
        if is_new && user.passwords.is_empty() {
            return Err(
                "password must be specified unless you are updating an existing user".into()
            );
        }
        match self.roles {
            Some(roles) => {
                // They say what the user may do, in place of Redis' rules.
                user.acl = None;
                user.roles = roles;
            }
            None if is_new => return Err("Required [roles] in a user".into()),
            None => {}
        }
        user.full_name = self.full_name.or(user.full_name);
        user.email = self.email.or(user.email);
        user.metadata = self.metadata.unwrap_or(user.metadata);
        user.enabled = self.enabled.unwrap_or(user.enabled);
        Ok(user)
    }
}

/// Checks a password that a user is to have.
///
/// # Errors
/// Where it is too short or too long.
pub fn check_password(password: &str) -> Result<(), Fault> {
    if password.chars().count() < PASSWORD_CHARS_MIN {
        return Err(Fault(format!(
            "passwords must be at least [{PASSWORD_CHARS_MIN}] characters long"
        )));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(Fault(format!("passwords must be at most [{PASSWORD_BYTES_MAX}] bytes long")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(body: Value) -> Result<UserSpec, Fault> {
        UserSpec::parse(body.as_object().unwrap())
    }

    #[test]
    fn a_user_is_made_and_changed() {
        let made = spec(json!({ "password": "secret", "roles": ["a"], "email": "x@y" })).unwrap();
        let user = made.change(None, "bob", Some("hash".into())).unwrap();
        assert_eq!((user.roles.len(), user.enabled, user.passwords.len()), (1, true, 1));
        let changed = spec(json!({ "enabled": false })).unwrap();
        let changed = changed.change(Some(user.clone()), "bob", None).unwrap();
        assert_eq!(changed, User { enabled: false, ..user });
        for (body, why) in [
            (json!({ "roles": [] }), "password must be specified"),
            (json!({ "password_hash": "x" }), "Required [roles]"),
        ] {
            let fault = spec(body).unwrap().change(None, "bob", None).unwrap_err();
            assert!(fault.0.contains(why), "{fault}");
        }
        for (body, why) in [
            (json!({ "password": "short" }), "at least [6]"),
            (json!({ "password": "x".repeat(513) }), "at most [512]"),
            (json!({ "password": "secret", "password_hash": "x" }), "together"),
            (json!({ "roles": 7 }), "list of strings"),
            (json!({ "roles": ["_x"] }), "Role names"),
            (json!({ "enabled": "yes" }), "[enabled]"),
            (json!({ "bogus": 1 }), "[bogus]"),
        ] {
            let Err(fault) = spec(body) else { panic!("{why}") };
            assert!(fault.0.contains(why), "{why}: {fault}");
        }
    }

    #[test]
    fn what_a_newer_version_adds_stays() {
        let kept = json!({ "id": "x", "roles": ["a"], "metadata": {}, "enabled": true, "passwords": [], "new": 1 });
        let user: User = serde_json::from_value(kept.clone()).unwrap();
        assert_eq!(serde_json::to_value(&user).unwrap(), kept);
    }

    #[test]
    fn one_user_has_two_names() {
        assert_eq!(
            (kept_name("elastic"), kept_name("default"), kept_name("x")),
            (DEFAULT, DEFAULT, "x")
        );
    }
}
