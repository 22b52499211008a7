"""The gym: many rules on many kinds of unavailability and several tasks, with the same tuning for all of them."""
