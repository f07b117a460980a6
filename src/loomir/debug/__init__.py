"""See inside: how programs differ, in text and in what they compute; which pass is wrong."""
