"""The research agents: the local one here reads text and names subjects, needs no key and opens no connection."""
