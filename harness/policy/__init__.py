"""What may follow a proposal. The model proposes; nothing here asks it, and nothing it says about itself counts."""
