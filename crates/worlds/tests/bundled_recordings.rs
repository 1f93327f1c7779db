//! The bundled songs are what they are said to be.

use mnemora_worlds::{Origin, Part, PianoRolls, Values};

#[test]
fn chorales_have_notes_in_nearly_every_step() {
    let chorales = PianoRolls::bundled().expect("the bundled songs are sound");
    assert_eq!(chorales.origin(), &Origin::Bundled);
    assert_eq!(chorales.name(), "jsb-chorales");
    for part in Part::ALL {
        for song in chorales.recordings(part) {
            let Values::Notes(steps) = &song.values else {
                panic!("{}: no notes", song.name);
            };
            let silent = steps.iter().filter(|&&chord| chord == 0).count();
            assert!(
                10 * silent <= steps.len(),
                "{}: {silent} silent steps",
                song.name
            );
            assert!(steps.iter().all(|chord| chord.count_ones() <= 10));
        }
    }
}
