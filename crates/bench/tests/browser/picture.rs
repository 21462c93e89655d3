//! What a picture of a page shows: how bright it is, and whether anything is on it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// A picture, decoded.
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pixels: Vec<[u8; 3]>,
    encoded: Vec<u8>,
}

impl Picture {
    /// From PNG.
    pub fn decode(encoded: &[u8]) -> Picture {
        let decoder = png::Decoder::new(std::io::Cursor::new(encoded));
        let mut reader = decoder.read_info().expect("a PNG");
        let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut bytes).expect("an image");
        let samples = info.color_type.samples();
        assert!(samples >= 3, "{:?}", info.color_type);
        let pixels = bytes[..info.buffer_size()].chunks_exact(samples);
        Picture {
            width: info.width,
            height: info.height,
            pixels: pixels.map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
            encoded: encoded.to_vec(),
        }
    }

    /// Keeps the picture for a person to look at.
    pub fn keep(&self, name: &str) {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reports");
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join(format!("{name}.png")), &self.encoded).expect("a picture");
    }

    /// From 0, black, to 255.
    pub fn brightness(&self) -> f64 {
        let sum: u64 = self
            .pixels
            .iter()
            .map(|pixel| pixel.iter().map(|&part| u64::from(part)).sum::<u64>())
            .sum();
        sum as f64 / (3 * self.pixels.len()) as f64
    }

    /// The share of pixels that are not of the commonest colour.
    pub fn covered(&self) -> f64 {
        let mut counts: HashMap<[u8; 3], usize> = HashMap::new();
        for pixel in &self.pixels {
            *counts.entry(*pixel).or_default() += 1;
        }
        let commonest = counts.values().max().copied().unwrap_or_default();
        1.0 - commonest as f64 / self.pixels.len() as f64
    }

    /// How many pixels are nearly of a colour.
    pub fn pixels_like(&self, colour: [u8; 3]) -> usize {
        let near = |pixel: &&[u8; 3]| {
            let distances = pixel.iter().zip(colour).map(|(a, b)| a.abs_diff(b));
            distances.max().is_some_and(|distance| distance < 24)
        };
        self.pixels.iter().filter(near).count()
    }
}
