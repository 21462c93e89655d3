//! A repository cannot be reached for a while: in the file, so that PostgreSQL keeps what it lacks,
//! or taken out of it, so that it has to be brought up to date afterwards.

use super::places::Service;
use super::{NUMBERS, Number, Several};
use crate::rounds::Checked;

impl Several<'_> {
    /// One of both goes away, and the server writes on; into the other one where it is taken out of the
    /// file.
    pub fn go_away(&mut self, is_taken_out: bool) -> Checked {
        if self.places.away.is_some() {
            return self.work();
        }
        let number = *self.random.pick(&NUMBERS).ok_or("a number")?;
        if is_taken_out {
            let other = NUMBERS.iter().find(|other| **other != number);
            let other = other.ok_or("another")?.to_string();
            self.places.archive_into(&other)?;
        }
        match number {
            1 => self.places.move_directory(true)?,
            _ => {
                let states = [Service::Silent, Service::Refuses, Service::Mute];
                let state = *self.random.pick(&states).ok_or("a state")?;
                self.places.set_service(state);
            }
        }
        self.places.away = Some(number);
        self.work()?;
        match self.places.takes_pushes()? {
            true => Ok(()),
            false => self.wait_for_pushes(),
        }
    }

    /// It comes back, and gets what it lacks.
    pub fn come_back(&mut self) -> Checked {
        let active = self.places.active()?;
        let Some(number) = self.places.away else {
            return self.work();
        };
        self.return_away()?;
        if active.contains(&number) {
            return self.archive_everything();
        }
        let is_synced_first = self.random.chance(50);
        if is_synced_first {
            self.sync(number)?;
        }
        self.places.archive_into("12")?;
        if !is_synced_first {
            self.work()?;
        }
        self.archive_everything()?;
        self.sync(number)
    }

    /// Everything can be reached, and the server archives into both.
    pub fn return_to_order(&mut self) -> Checked {
        if self.places.away.is_some() {
            self.come_back()?;
        }
        self.places.set_service(Service::Well);
        Ok(())
    }

    fn return_away(&mut self) -> Checked {
        match self.places.away.take() {
            Some(1) => self.places.move_directory(false),
            Some(_) => {
                self.places.set_service(Service::Well);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The bucket's service begins to falter, or ends it.
    pub fn falter(&mut self) -> Checked {
        if self.places.away != Some(2) {
            self.places.set_service(match self.places.falters() {
                true => Service::Well,
                false => Service::Falters,
            });
        }
        self.work()
    }

    /// A repository that can be reached.
    pub fn any_reachable(&mut self) -> Checked<Number> {
        let away = self.places.away;
        let reachable = NUMBERS.into_iter().filter(|number| Some(*number) != away);
        let reachable: Vec<Number> = reachable.collect();
        let chosen = self.random.pick(&reachable);
        chosen
            .copied()
            .ok_or_else(|| "none can be reached".to_owned())
    }
}
