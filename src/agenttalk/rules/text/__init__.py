"""The texts that the engine stores and shows, in English and Chinese."""
