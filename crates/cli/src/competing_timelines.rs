//! Timelines that went on at the same time: how to say which is meant, and how the others are put away.

use walzip_archive::{CompetingTimeline, OtherBranch, PutAway};
use walzip_pgformat::TimelineId;

/// That they did, and how each is set aside.
pub fn question(competing: &[CompetingTimeline]) -> String {
    let numbers: Vec<String> = competing.iter().map(|of| of.timeline.to_string()).collect();
    let ways: Vec<String> = competing.iter().filter_map(way).collect();
    format!(
        "timelines {} went on at the same time, and which of them is production is not known. Set aside the one that is \
         not: {}",
        numbers.join(" and "),
        ways.join(" or ")
    )
}

/// How one of them is set aside. That with which the cluster began cannot be set aside whole.
fn way(competing: &CompetingTimeline) -> Option<String> {
    let CompetingTimeline {
        timeline,
        set_aside_from,
        waits_for,
        descendants,
        left_by,
    } = competing;
    Some(match (waits_for, left_by) {
        (Some(own), _) => format!("timeline {timeline} once {own} is archived"),
        (None, Some(begun)) => format!(
            "timeline {timeline} once timeline {begun}, which has left it, has archived its first segment, or was set aside \
             itself"
        ),
        (None, None) if *timeline == 1 && set_aside_from.is_none() => return None,
        (None, None) => set_aside_command(*timeline, set_aside_from.as_deref(), descendants),
    })
}

/// How to say which of several timelines is meant, and how the others are put away.
pub fn hint(timeline: TimelineId, own: &PutAway, others: &[OtherBranch]) -> String {
    let all = std::iter::once(timeline).chain(others.iter().map(|other| other.timeline));
    let named: Vec<String> = all
        .map(|timeline| format!("--target-timeline {timeline}"))
        .collect();
    let with_wal = others.iter().filter(|other| !other.is_begun);
    let put_away = with_wal.map(|other| (other.timeline, &other.put_away));
    let put_away: Vec<String> = put_away
        .chain([(timeline, own)])
        .filter_map(|(timeline, how)| set_aside(timeline, how))
        .collect();
    let mut hint = format!(
        "Name the one to restore: {}; \"walzip info\" shows their times.",
        named.join(" or ")
    );
    if !put_away.is_empty() {
        let commands = put_away.join(" or ");
        hint.push_str(&format!(
            " What an abandoned server has archived is put away by {commands}, with --confirm: the \
             number is the abandoned one's."
        ));
    }
    for OtherBranch { timeline, .. } in others.iter().filter(|other| other.is_begun) {
        hint.push_str(&format!(
            " Of timeline {timeline} only the history is archived: \"walzip check\" on its server makes it archive the \
             rest. If it was given up, \"walzip timeline set-aside {timeline}\" puts it away."
        ));
    }
    for other in others {
        if let PutAway::After(own) = &other.put_away {
            hint.push_str(&format!(
                " What the server of timeline {} went on with can be put away once {own} is archived: run \"walzip \
                 check\" on the server of timeline {timeline}.",
                other.timeline
            ));
        }
    }
    hint
}

/// The command that puts a branch away, if there is one.
fn set_aside(timeline: TimelineId, how: &PutAway) -> Option<String> {
    match how {
        PutAway::Parts { from, with } if from.is_some() || timeline.0 > 1 => {
            let from = from.map(|from| from.to_string());
            let with: Vec<u32> = with.iter().map(|other| other.0).collect();
            Some(set_aside_command(timeline.0, from.as_deref(), &with))
        }
        PutAway::Parts { .. } | PutAway::After(_) | PutAway::Left(_) => None,
    }
}

/// The command that puts a branch away, and what goes with it.
fn set_aside_command(timeline: u32, from: Option<&str>, with: &[u32]) -> String {
    let from = from.map_or_else(String::new, |from| format!(" --from {from}"));
    let with: Vec<String> = with.iter().map(u32::to_string).collect();
    let with = match with.as_slice() {
        [] => String::new(),
        [one] => format!(" (timeline {one} goes with it)"),
        several => format!(" (timelines {} go with it)", several.join(" and ")),
    };
    format!("\"walzip timeline set-aside {timeline}{from}\"{with}")
}
