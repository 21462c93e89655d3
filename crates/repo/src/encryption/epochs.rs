//! The keys of a repository's epochs: `keys/EPOCH/RECIPIENT.age`.
//!
//! An epoch's key encrypts what is put while the epoch is the last one. Each recipient has a copy,
//! encrypted for it alone. Anybody can encrypt for a recipient, so the owner's copy also bears a tag
//! that only the owner could make. Without the tag it is refused: else who can write to the store could
//! choose the keys, and with them the content. The copies of others have no tag. A recovery key file
//! reads with them, and never writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use super::key_file::{KeyFile, Recipient};
use crate::error::RepoError;
use crate::error::encryption::{KeyError, SealError};
use crate::json::encode_json;
use crate::layout::KEYS_PREFIX;

/// The suffix of a key, after its recipient.
const SUFFIX: &str = ".age";
/// The version of what is inside.
const FORMAT: u64 = 1;
/// The first epoch.
const FIRST: u32 = 1;
/// Says, by the owner's tag, that all recipients have the key of an epoch: `keys/EPOCH/complete`.
const COMPLETE: &str = "complete";
/// Bytes that an epoch's key has in the store, at most.
const OBJECT_BYTES_MAX: u64 = 16 << 10;

/// The key of an epoch.
pub struct EpochKey {
    /// The repository, which is part of every object's key.
    pub repository: [u8; 16],
    /// The epoch.
    pub number: u32,
    /// The secret.
    pub key: [u8; 32],
}

impl fmt::Debug for EpochKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochKey")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Drop for EpochKey {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// A copy of an epoch's key, as in docs/format/encryption.md.
#[derive(Serialize, Deserialize)]
struct EpochJson {
    format: u64,
    repository: String,
    epoch: u32,
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vouched: Option<String>,
}

impl EpochKey {
    fn random(repository: [u8; 16], number: u32) -> Result<EpochKey, SealError> {
        let mut key = EpochKey {
            repository,
            number,
            key: [0; 32],
        };
        fill(&mut key.key)?;
        Ok(key)
    }

    /// What an owner vouches for.
    fn statement(&self) -> Vec<u8> {
        let mut statement = self.repository.to_vec();
        statement.extend_from_slice(&self.number.to_le_bytes());
        statement.extend_from_slice(&self.key);
        statement
    }

    /// What an owner vouches for once all recipients have it.
    fn completion(&self) -> Vec<u8> {
        let mut statement = self.statement();
        statement.extend_from_slice(COMPLETE.as_bytes());
        statement
    }
}

fn fill(bytes: &mut [u8]) -> Result<(), SealError> {
    let filled = SystemRandom::new().fill(bytes);
    filled.map_err(|_| SealError::Failed)
}

/// Who can read what was put in an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochRecipients {
    /// The epoch.
    pub epoch: u32,
    /// The recipients that have its key.
    pub recipients: Vec<String>,
}

/// The epochs of a repository, as far as a key file opens them.
#[derive(Clone, Debug)]
pub struct Epochs {
    store: Arc<dyn ObjectStore>,
    key_file: Arc<KeyFile>,
}

impl Epochs {
    /// Those of the repository in a store. Nothing is read yet.
    pub fn new(store: Arc<dyn ObjectStore>, key_file: KeyFile) -> Epochs {
        let key_file = Arc::new(key_file);
        Epochs { store, key_file }
    }

    /// Begins the first epoch of a repository that has none, for the owner and for others. Where
    /// there is one already, the owner has to have its key, and others get those of all epochs.
    pub async fn begin_first(&self, others: &[Recipient]) -> Result<(), RepoError> {
        if self.list().await?.is_empty() {
            let mut repository = [0; 16];
            fill(&mut repository).map_err(failed)?;
            self.claim(&EpochKey::random(repository, FIRST).map_err(failed)?)
                .await?;
        }
        self.join(others).await
    }

    /// Gives others the keys of a repository that has some.
    pub async fn join(&self, others: &[Recipient]) -> Result<(), RepoError> {
        self.for_writing().await?;
        self.add(others).await
    }

    /// Begins the next epoch, for the recipients of the last one, or goes on with one that was
    /// begun and interrupted. Returns its number.
    pub async fn rotate(&self) -> Result<u32, RepoError> {
        let known = self.list().await?;
        let last = self.newest(&known).await?;
        let next = last.number.checked_add(1);
        let next = next.ok_or_else(|| failed(SealError::Failed))?;
        // Who is first decides what the key is; others take it up.
        let begun = EpochKey::random(last.repository, next).map_err(failed)?;
        self.claim(&begun).await?;
        let key = self.ours(next).await?;
        // Who is added from now on finds this epoch; who was added just before is found here.
        let known = self.list().await?;
        let recipients = known.get(&last.number).into_iter().flatten();
        let others: Vec<Recipient> = recipients.filter_map(|name| name.parse().ok()).collect();
        self.give(&key, &others).await?;
        self.complete(&key).await?;
        Ok(next)
    }

    /// Gives the keys of all epochs to more recipients, of those too that are begun meanwhile.
    pub async fn add(&self, recipients: &[Recipient]) -> Result<(), RepoError> {
        let mut given = BTreeSet::new();
        loop {
            let known = self.list().await?;
            if known.is_empty() {
                return Err(KeyError::NoKeys.into());
            }
            let new: Vec<u32> = known.into_keys().filter(|of| !given.contains(of)).collect();
            if new.is_empty() {
                return Ok(());
            }
            for epoch in new {
                let key = self.ours(epoch).await?;
                self.give(&key, recipients).await?;
                given.insert(epoch);
            }
        }
    }

    /// Takes the copies of a recipient away. Who has had them may have kept the keys.
    pub async fn remove(&self, recipient: &Recipient) -> Result<usize, RepoError> {
        if *recipient == self.owner()? {
            return Err(RepoError::InvalidName {
                what: "a recipient to remove",
                name: recipient.to_string(),
                detail: "it is the key file's own, without which it could not be put back",
            });
        }
        let mut removed = 0;
        let epochs = self.list().await?;
        let name = recipient.to_string();
        for (&epoch, _) in epochs.iter().filter(|(_, names)| names.contains(&name)) {
            let key = object_key(epoch, &name);
            match self.store.delete(&Path::from(key.as_str())).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => removed += 1,
                Err(error) => return Err(RepoError::from_store(&key, error)),
            }
        }
        Ok(removed)
    }

    /// All epochs and their recipients, oldest first.
    pub async fn recipients(&self) -> Result<Vec<EpochRecipients>, RepoError> {
        let epochs = self.list().await?.into_iter();
        let of_epoch = |(epoch, names): (u32, BTreeSet<String>)| EpochRecipients {
            epoch,
            recipients: names.into_iter().collect(),
        };
        Ok(epochs.map(of_epoch).collect())
    }

    /// The key with which to encrypt: the newest that is the owner's.
    pub(super) async fn for_writing(&self) -> Result<EpochKey, RepoError> {
        self.newest(&self.list().await?).await
    }

    /// An epoch that was begun counts when it is complete, the first one always: until then others
    /// could not read what is put.
    async fn newest(&self, known: &BTreeMap<u32, BTreeSet<String>>) -> Result<EpochKey, RepoError> {
        let owner = self.owner()?.to_string();
        for (&epoch, names) in known.iter().rev() {
            if !names.contains(&owner) {
                continue;
            }
            let tag = match epoch {
                FIRST => None,
                _ => match self.get(&complete_key(epoch)).await? {
                    Some(tag) => Some(tag),
                    None => continue,
                },
            };
            let key = self.ours(epoch).await?;
            let is_complete = tag.is_none_or(|tag| {
                let tag = std::str::from_utf8(&tag).ok().and_then(unhex);
                tag.is_some_and(|tag| self.key_file.has_vouched(&key.completion(), &tag))
            });
            return match is_complete {
                true => Ok(key),
                false => Err(KeyError::NotOurs { epoch }.into()),
            };
        }
        Err(KeyError::NoKeys.into())
    }

    /// Says that all recipients have the key of an epoch.
    async fn complete(&self, key: &EpochKey) -> Result<(), RepoError> {
        let tag = self.key_file.vouch(&key.completion());
        let tag = tag.ok_or_else(|| failed(SealError::Failed))?;
        let name = complete_key(key.number);
        self.create(&name, hex(tag.as_ref()).into_bytes()).await
    }

    /// The key of an epoch for which the owner has vouched.
    async fn ours(&self, epoch: u32) -> Result<EpochKey, RepoError> {
        match self.read(epoch).await? {
            (key, true) => Ok(key),
            (_, false) => Err(KeyError::ReadsOnly.into()),
        }
    }

    /// The key of an epoch, for reading.
    pub(super) async fn key(&self, epoch: u32) -> Result<EpochKey, RepoError> {
        Ok(self.read(epoch).await?.0)
    }

    /// The key of an epoch, and whether the owner has vouched for it. It has to be of the repository
    /// that the first epoch is of: the owner may have several.
    async fn read(&self, epoch: u32) -> Result<(EpochKey, bool), RepoError> {
        let read = self.read_alone(epoch).await?;
        if epoch != FIRST && self.read_alone(FIRST).await?.0.repository != read.0.repository {
            let key = object_key(epoch, &self.owner()?.to_string());
            let detail = "it is of another repository than the first epoch's".to_owned();
            return Err(KeyError::Damaged { key, detail }.into());
        }
        Ok(read)
    }

    async fn read_alone(&self, epoch: u32) -> Result<(EpochKey, bool), RepoError> {
        if epoch < FIRST {
            return Err(KeyError::NoKey { epoch }.into());
        }
        let mut unvouched = None;
        for recipient in self.key_file.recipients() {
            let key = object_key(epoch, &recipient.to_string());
            let Some(encrypted) = self.get(&key).await? else {
                continue;
            };
            let damaged = |detail: String| {
                let key = key.clone();
                KeyError::Damaged { key, detail }
            };
            let text = self.key_file.decrypt(&encrypted).map_err(damaged)?;
            let (read, vouched) = read_copy(&text, epoch).map_err(damaged)?;
            let is_ours =
                vouched.is_some_and(|tag| self.key_file.has_vouched(&read.statement(), &tag));
            if is_ours {
                return Ok((read, true));
            }
            unvouched.get_or_insert(read);
        }
        match unvouched {
            Some(read) if self.key_file.is_recovery() => Ok((read, false)),
            Some(_) => Err(KeyError::NotOurs { epoch }.into()),
            None => Err(KeyError::NoKey { epoch }.into()),
        }
    }

    /// An object below `keys/`.
    async fn get(&self, key: &str) -> Result<Option<bytes::Bytes>, RepoError> {
        let found = match self.store.get(&Path::from(key)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(RepoError::from_store(key, error)),
        };
        if found.meta.size > OBJECT_BYTES_MAX {
            let detail = format!("it has {} bytes", found.meta.size);
            let key = key.to_owned();
            return Err(KeyError::Damaged { key, detail }.into());
        }
        let bytes = found.bytes().await;
        bytes
            .map(Some)
            .map_err(|error| RepoError::from_store(key, error))
    }

    /// Puts the owner's copy of a new epoch's key, unless another process was faster.
    async fn claim(&self, key: &EpochKey) -> Result<(), RepoError> {
        self.put(key, &self.owner()?).await
    }

    async fn give(&self, key: &EpochKey, recipients: &[Recipient]) -> Result<(), RepoError> {
        for recipient in recipients {
            self.put(key, recipient).await?;
        }
        Ok(())
    }

    /// Puts a copy for a recipient, unless it has one.
    async fn put(&self, key: &EpochKey, recipient: &Recipient) -> Result<(), RepoError> {
        let vouched = match *recipient == self.owner()? {
            true => self.key_file.vouch(&key.statement()),
            false => None,
        };
        let copy = EpochJson {
            format: FORMAT,
            repository: hex(&key.repository),
            epoch: key.number,
            key: hex(&key.key),
            vouched: vouched.map(|tag| hex(tag.as_ref())),
        };
        let name = object_key(key.number, &recipient.to_string());
        let encrypted = recipient.encrypt(&encode_json(&copy)?);
        let encrypted = encrypted.map_err(|detail| KeyError::Damaged {
            key: name.clone(),
            detail,
        })?;
        self.create(&name, encrypted).await
    }

    /// Puts an object unless there is one.
    async fn create(&self, name: &str, content: Vec<u8>) -> Result<(), RepoError> {
        let path = Path::from(name);
        let put = self
            .store
            .put_opts(&path, content.into(), PutOptions::from(PutMode::Create));
        match put.await {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(RepoError::from_put(name, error)),
        }
    }

    fn owner(&self) -> Result<Recipient, RepoError> {
        let owner = self.key_file.recipients().next();
        owner.ok_or_else(|| KeyError::NoKeys.into())
    }

    /// The names of the recipients of each epoch.
    async fn list(&self) -> Result<BTreeMap<u32, BTreeSet<String>>, RepoError> {
        let objects: Vec<_> = self
            .store
            .list(Some(&Path::from(KEYS_PREFIX)))
            .try_collect()
            .await
            .map_err(|error| RepoError::from_store(KEYS_PREFIX, error))?;
        let mut epochs: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for meta in objects {
            if let Some((epoch, recipient)) = named(meta.location.as_ref()) {
                epochs
                    .entry(epoch)
                    .or_default()
                    .insert(recipient.to_owned());
            }
        }
        Ok(epochs)
    }
}

fn failed(error: SealError) -> RepoError {
    KeyError::Wrong(error).into()
}

fn complete_key(epoch: u32) -> String {
    format!("{KEYS_PREFIX}/{epoch}/{COMPLETE}")
}

fn object_key(epoch: u32, recipient: &str) -> String {
    format!("{KEYS_PREFIX}/{epoch}/{recipient}{SUFFIX}")
}

/// The epoch and the recipient of a key, which is written in one way only.
fn named(key: &str) -> Option<(u32, &str)> {
    let mut parts = key.split('/').skip(1);
    let (epoch, name): (u32, &str) = (parts.next()?.parse().ok()?, parts.next()?);
    let recipient = name.strip_suffix(SUFFIX)?;
    let is_recipient = recipient.parse::<Recipient>().is_ok();
    let is_key = epoch >= FIRST && is_recipient && object_key(epoch, recipient) == key;
    is_key.then_some((epoch, recipient))
}

fn read_copy(text: &[u8], epoch: u32) -> Result<(EpochKey, Option<Vec<u8>>), String> {
    let copy: EpochJson = serde_json::from_slice(text).map_err(|_| "it is no epoch's key")?;
    if copy.format != FORMAT {
        return Err(format!(
            "it has format {}, this walzip knows {FORMAT}",
            copy.format
        ));
    }
    if copy.epoch != epoch {
        return Err(format!("it is of epoch {}", copy.epoch));
    }
    let bytes = |text: &str| unhex(text).ok_or("it is no epoch's key");
    let (repository, key) = (bytes(&copy.repository)?, bytes(&copy.key)?);
    let vouched = copy.vouched.as_deref().map(bytes).transpose()?;
    let length = "it is no epoch's key";
    let key = EpochKey {
        repository: repository.try_into().map_err(|_| length)?,
        number: epoch,
        key: key.try_into().map_err(|_| length)?,
    };
    Ok((key, vouched))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text
        .bytes()
        .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
    if !is_hex || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}
