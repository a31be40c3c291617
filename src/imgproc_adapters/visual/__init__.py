"""Visual vectors and subject tags, computed here from the pixels; needs the `local` extra."""
