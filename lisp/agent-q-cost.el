;;; agent-q-cost.el --- What a chat cost  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Says what the last turn of a chat and the whole chat cost, as far as the prices of the
;; models are known, and how that is shown in lists.

;;; Code:

(require 'agent-q-facts)
(require 'agent-q-header)
(require 'agent-q-render)
(require 'agent-q-session)

(defun agent-q-cost-text (dollars unpriced)
  "Return DOLLARS as a short text; UNPRICED requests had no known price.
DOLLARS is nil if none of them had one."
  (cond (dollars (concat (agent-q-header-dollars dollars)
                         (if (< 0 (or unpriced 0)) "+?" "")))
        ((< 0 (or unpriced 0)) "?")
        (t "")))

(defun agent-q-cost--sentence (dollars unpriced input output more)
  "Say what DOLLARS, UNPRICED requests, INPUT and OUTPUT tokens amount to.
MORE is put behind the number of tokens that were sent."
  (format "%s%s; %s tokens sent%s, %s received"
          (if dollars (agent-q-header-dollars dollars) "unknown")
          (cond ((or (null dollars) (eql unpriced 0)) "")
                ((eql unpriced 1) " and a request of unknown price")
                (t (format " and %d requests of unknown price" unpriced)))
          (agent-q-header-tokens input) more (agent-q-header-tokens output)))

;;;###autoload
(defun agent-q-cost ()
  "Say what the last turn of this chat cost, and what the whole chat did.
Requests of unknown price are listed as such."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (if (zerop (+ agent-q-header-input agent-q-header-output))
      (agent-q-render-notice "No token counts yet; some servers don't report them.")
    (pcase agent-q-header-turn
      (`(,input ,output ,_ ,unpriced)
       (agent-q-render-notice
        (concat "The last turn cost " (agent-q-cost--sentence agent-q-header-turn-cost unpriced
                                                         input output "")
                "."))))
    (agent-q-render-notice
     (concat "This chat cost "
             (agent-q-cost--sentence
              agent-q-header-cost agent-q-header-unpriced
              agent-q-header-input agent-q-header-output
              (if (< 0 agent-q-header-cached)
                  (format " (%s of these from the cache)"
                          (agent-q-header-tokens agent-q-header-cached))
                ""))
             "."
             (cond ((null agent-q-header-cost)
                    "  :prices in the :models of `agent-q-providers' says what a model costs.")
                   ((agent-q-facts-date) (format "  Prices as of %s." (agent-q-facts-date)))
                   (t ""))))))

(provide 'agent-q-cost)
;;; agent-q-cost.el ends here
