//! Client arbitration: roles, election ids, the right to write, and the notifications about them (P4Runtime § 5).
//!
//! A role has at most one primary: the connected client whose election id is the highest that the switch has
//! received for the role. When the primary disconnects, the role has no primary until a client sends an id at least
//! as high.

use std::collections::BTreeMap;

use alfirk_p4runtime::{
    p4::v1::{MasterArbitrationUpdate, Role, Uint128},
    Code, Status,
};

use super::event::ClientId;

/// Maximum number of connected clients per role. Further clients are rejected with RESOURCE_EXHAUSTED.
pub const MAX_CLIENTS_PER_ROLE: usize = 256;
/// Maximum number of roles per device. Roles are counted even without clients, since a role's highest election id is
/// kept after its last client has disconnected.
pub const MAX_ROLES: usize = 1024;
/// Maximum length of a role's name, in bytes.
pub const MAX_ROLE_NAME: usize = 256;

/// Identifies a role: by its name, or by the number that clients used before P4Runtime 1.3. The default role has
/// neither name nor number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleKey {
    name: String,
    id: u64,
}

impl RoleKey {
    /// Creates a key; a non-empty name takes precedence over the number.
    pub fn new(name: &str, id: u64) -> RoleKey {
        RoleKey {
            name: name.to_owned(),
            id: if name.is_empty() { id } else { 0 },
        }
    }

    fn is_default(&self) -> bool {
        *self == RoleKey::default()
    }

    fn to_message(&self) -> Option<Role> {
        (!self.is_default()).then(|| Role {
            id: self.id,
            name: self.name.clone(),
            config: None,
        })
    }
}

/// An action on a client's stream, which the owner of the streams executes. Actions are executed in order.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamAction {
    /// Send a client a notification about the primary.
    Send(ClientId, MasterArbitrationUpdate),
    /// End a client's stream with an error.
    Close(ClientId, Status),
}

#[derive(Clone, Debug, Default)]
struct RoleState {
    /// Highest election id that any primary of this role has had.
    highest: Option<u128>,
    primary: Option<ClientId>,
}

#[derive(Clone, Debug)]
struct Session {
    role: RoleKey,
    election_id: Option<u128>,
}

/// Arbitration state of one device: its clients and roles.
#[derive(Clone, Debug)]
pub struct Arbitration {
    device_id: u64,
    sessions: BTreeMap<ClientId, Session>,
    roles: BTreeMap<RoleKey, RoleState>,
}

impl Arbitration {
    /// Creates the arbitration state of a device that has no clients yet.
    pub fn new(device_id: u64) -> Arbitration {
        Arbitration {
            device_id,
            sessions: BTreeMap::new(),
            roles: BTreeMap::new(),
        }
    }

    /// Applies a client's arbitration update (§ 5.3) and returns the resulting notifications.
    pub fn update(
        &mut self,
        client: ClientId,
        update: &MasterArbitrationUpdate,
    ) -> Vec<StreamAction> {
        let role = update.role.as_ref();
        let key = role.map_or_else(RoleKey::default, |r| RoleKey::new(&r.name, r.id));
        let election_id = update.election_id.as_ref().map(to_u128);
        if let Err(status) = self.check(client, update, &key, election_id) {
            let mut actions = self.close(client);
            actions.push(StreamAction::Close(client, status));
            return actions;
        }

        let session = Session {
            role: key.clone(),
            election_id,
        };
        self.sessions.insert(client, session);
        let state = self.roles.entry(key.clone()).or_default();
        let was_primary = state.primary == Some(client);
        if election_id.is_some() && election_id >= state.highest {
            state.primary = Some(client);
            state.highest = election_id;
            self.advise_all(&key)
        } else if was_primary {
            state.primary = None;
            self.advise_all(&key)
        } else {
            vec![self.advise(client, &key)]
        }
    }

    /// Removes a client whose stream has ended. If it was a primary, returns notifications for the other clients of its
    /// role.
    pub fn close(&mut self, client: ClientId) -> Vec<StreamAction> {
        let Some(session) = self.sessions.remove(&client) else {
            return Vec::new();
        };
        let Some(state) = self.roles.get_mut(&session.role) else {
            return Vec::new();
        };
        if state.primary != Some(client) {
            return Vec::new();
        }
        state.primary = None;
        self.advise_all(&session.role)
    }

    /// Checks whether a client may change the switch (§ 12): its role and election id must be those of a primary.
    ///
    /// # Errors
    /// NOT_FOUND for a role that no client has requested, PERMISSION_DENIED to every client but its primary.
    pub fn authorize(&self, role: &RoleKey, election_id: Option<&Uint128>) -> Result<(), Status> {
        let denied = |why: String| Err(Status::new(Code::PermissionDenied, why));
        let Some(state) = self.roles.get(role) else {
            if role.is_default() {
                return denied(
                    "no client has become primary yet: send an arbitration update".into(),
                );
            }
            let name = if role.name.is_empty() {
                role.id.to_string()
            } else {
                format!("\"{}\"", role.name)
            };
            return Err(Status::new(
                Code::NotFound,
                format!("role {name} does not exist on device {}", self.device_id),
            ));
        };
        let primary = state.primary.and_then(|client| self.sessions.get(&client));
        match (
            primary.and_then(|p| p.election_id),
            election_id.map(to_u128),
        ) {
            (None, _) => denied("the role has no primary at present".into()),
            (Some(_), None) => denied("the request has no election id".into()),
            (Some(primary), Some(id)) if id != primary => denied(format!(
                "election id {id} is not the primary's, which is {primary}"
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether the client is the primary of its role.
    pub fn is_primary(&self, client: ClientId) -> bool {
        self.primaries().any(|primary| primary == client)
    }

    /// Iterates over the primaries of all roles, in the order of the roles.
    pub fn primaries(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.roles.values().filter_map(|state| state.primary)
    }

    fn check(
        &self,
        client: ClientId,
        update: &MasterArbitrationUpdate,
        role: &RoleKey,
        election_id: Option<u128>,
    ) -> Result<(), Status> {
        let known = self.sessions.get(&client);
        if update.device_id != self.device_id {
            let code = if known.is_some() {
                Code::FailedPrecondition
            } else {
                Code::NotFound
            };
            return Err(Status::new(
                code,
                format!(
                    "device_id is {}, but this is device {}",
                    update.device_id, self.device_id
                ),
            ));
        }
        if known.is_some_and(|session| session.role != *role) {
            return Err(Status::new(
                Code::FailedPrecondition,
                "a stream cannot change its role; open another stream for another role",
            ));
        }
        if update.role.as_ref().is_some_and(|r| r.config.is_some()) {
            return Err(Status::new(
                Code::InvalidArgument,
                "role configurations are not supported; send a role without config",
            ));
        }
        if role.name.len() > MAX_ROLE_NAME {
            return Err(Status::new(
                Code::InvalidArgument,
                format!("the role's name is longer than {MAX_ROLE_NAME} bytes"),
            ));
        }
        if !self.roles.contains_key(role) && self.roles.len() >= MAX_ROLES {
            return Err(Status::new(
                Code::ResourceExhausted,
                format!("the device has {MAX_ROLES} roles already, which is the limit"),
            ));
        }
        let mut others = self
            .sessions
            .iter()
            .filter(|(other, session)| **other != client && session.role == *role)
            .map(|(_, session)| session);
        if election_id.is_some() && others.clone().any(|s| s.election_id == election_id) {
            return Err(Status::new(
                Code::InvalidArgument,
                format!(
                    "election id {} is in use by another client of the role",
                    election_id.unwrap_or_default()
                ),
            ));
        }
        if known.is_none() && others.by_ref().count() >= MAX_CLIENTS_PER_ROLE {
            return Err(Status::new(
                Code::ResourceExhausted,
                format!("the role has {MAX_CLIENTS_PER_ROLE} clients already, which is the limit"),
            ));
        }
        Ok(())
    }

    /// Returns notifications for all clients of a role. The new primary is notified last, as § 5.3 requires.
    fn advise_all(&self, role: &RoleKey) -> Vec<StreamAction> {
        let primary = self.roles.get(role).and_then(|state| state.primary);
        let backups = self
            .sessions
            .iter()
            .filter(|(client, session)| session.role == *role && Some(**client) != primary)
            .map(|(client, _)| *client);
        backups
            .chain(primary)
            .map(|client| self.advise(client, role))
            .collect()
    }

    fn advise(&self, client: ClientId, role: &RoleKey) -> StreamAction {
        let (highest, primary) = self
            .roles
            .get(role)
            .map_or((None, None), |state| (state.highest, state.primary));
        let status = match primary {
            Some(primary) if primary == client => Status::new(Code::Ok, "you are primary"),
            Some(_) => Status::new(Code::AlreadyExists, "you are backup"),
            None => Status::new(Code::NotFound, "you are backup, and there is no primary"),
        };
        StreamAction::Send(
            client,
            MasterArbitrationUpdate {
                device_id: self.device_id,
                role: role.to_message(),
                election_id: highest.map(from_u128),
                status: Some(status),
            },
        )
    }
}

fn to_u128(id: &Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

fn from_u128(id: u128) -> Uint128 {
    Uint128 {
        high: (id >> 64) as u64,
        low: id as u64,
    }
}
