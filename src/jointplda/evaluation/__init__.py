"""From scores and labels to results: trials joined with their key, measured in parts, and systems compared."""
