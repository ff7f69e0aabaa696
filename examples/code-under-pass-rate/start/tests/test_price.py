"""What has to hold of prices."""

import unittest

from price import price


class Prices(unittest.TestCase):
    """Five cases; one of them is a fifth of the pass rate."""

    def test_none_cost_nothing(self):
        self.assertEqual(price(0), 0)

    def test_one_costs_forty(self):
        self.assertEqual(price(1), 40)

    def test_two_cost_eighty(self):
        self.assertEqual(price(2), 80)

    def test_ten_cost_a_tenth_less(self):
        self.assertEqual(price(10), 360)

    def test_less_than_none_is_an_error(self):
        with self.assertRaises(ValueError):
            price(-1)
