"""The estimators: thin scikit-learn interfaces to coding and learning, and what they share."""
