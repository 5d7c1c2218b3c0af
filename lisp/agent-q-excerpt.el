;;; agent-q-excerpt.el --- Texts that go along with a message  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A text that the user sends along with a message: what it is, where it is from, how much
;; of it is sent.  In the log it is a line under the message, which unfolds to the text.

;;; Code:

(require 'agent-q-render)
(require 'agent-q-text)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'seq)

(defcustom agent-q-context-max-size 50000
  "Maximum number of characters of one text that is attached to a message.
Longer texts are cut, and the log and the model say so.  All texts of a message
together have at most four times as many."
  :type 'natnum
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defface agent-q-mention '((t :inherit link :underline nil))
  "What is attached to a message, at the prompt and in the log."
  :group 'agent-q-faces)

(cl-defstruct (agent-q-excerpt (:constructor agent-q-excerpt--make) (:copier nil))
  "A text that is attached to a message.
NAME is what the user calls it, such as \"@file:src/bank.lisp\", and WHERE
says to the model where TEXT is from.  TOTAL is the number of characters that
there were before TEXT was cut, KEPT of those that are left.  VISIT is a function
that goes there, or nil."
  name where text total kept visit)

(defun agent-q-excerpt-make (name where text &optional total visit)
  "Return the excerpt of TEXT, which is cut where it is too long.
NAME, WHERE, TOTAL and VISIT are as in `agent-q-excerpt'."
  (let ((total (max (or total 0) (length text)))
        (most agent-q-context-max-size))
    (agent-q-excerpt--make :name name :where where :total total :visit visit
                           :kept (min most (length text))
                           :text (agent-q-excerpt--cut text total most))))

(defun agent-q-excerpt--cut (text total most)
  "Return the first MOST characters of TEXT, which is the beginning of TOTAL.
What is left out is said at the end."
  (let ((kept (min most (length text))))
    (agent-q-text-clean
     (if (< kept total)
         (format "%s\n... [%d more characters]" (substring text 0 kept) (- total kept))
       text))))

(defun agent-q-excerpt-fit (excerpts)
  "Return EXCERPTS, each once, cut to what a message takes."
  (let ((left (* 4 agent-q-context-max-size)))
    (mapcar (lambda (excerpt)
              (let* ((text (agent-q-excerpt-text excerpt))
                     (fits (<= (length text) left)))
                (prog1 (if fits
                           excerpt
                         (agent-q-excerpt--make
                          :name (agent-q-excerpt-name excerpt)
                          :where (agent-q-excerpt-where excerpt)
                          :total (agent-q-excerpt-total excerpt)
                          :visit (agent-q-excerpt-visit excerpt)
                          :kept (min left (agent-q-excerpt-kept excerpt))
                          :text (agent-q-excerpt--cut text (agent-q-excerpt-total excerpt) left)))
                  (setq left (max 0 (- left (length text)))))))
            (seq-uniq excerpts
                      (lambda (one other)
                        (and (equal (agent-q-excerpt-where one) (agent-q-excerpt-where other))
                             (equal (agent-q-excerpt-text one)
                                    (agent-q-excerpt-text other))))))))

(defun agent-q-excerpt-pairs (excerpts)
  "Return EXCERPTS as the pairs (WHERE . TEXT) that the core is told."
  (mapcar (lambda (excerpt)
            (cons (agent-q-excerpt-where excerpt) (agent-q-excerpt-text excerpt)))
          excerpts))

(defun agent-q-excerpt-size (characters)
  "Return CHARACTERS, a number, as a short text."
  (if (< characters 1024)
      (format "%d B" characters)
    (file-size-human-readable characters nil " " "B")))

(defun agent-q-excerpt-sizes (excerpt)
  "Return how long EXCERPT is, and of what it is the beginning."
  (let ((kept (agent-q-excerpt-kept excerpt))
        (total (agent-q-excerpt-total excerpt)))
    (if (< kept total)
        (format "first %s of %s" (agent-q-excerpt-size kept) (agent-q-excerpt-size total))
      (agent-q-excerpt-size total))))

;;;; In the log

(cl-defstruct (agent-q-excerpt-line (:include agent-q-render-item)
                                    (:constructor agent-q-excerpt--make-line) (:copier nil))
  "The line of an excerpt in the log."
  excerpt)

(defun agent-q-excerpt--draw (line)
  "Return the text of LINE."
  (let ((excerpt (agent-q-excerpt-line-excerpt line)))
    (concat (propertize (concat "  " (agent-q-render-fold-sign line) " ") 'face 'agent-q-dim)
            (propertize (agent-q-visible-line (agent-q-excerpt-name excerpt) 80)
                        'face 'agent-q-mention 'mouse-face 'highlight
                        'help-echo (agent-q-visible-line (agent-q-excerpt-where excerpt)))
            (propertize (concat "  " (agent-q-excerpt-sizes excerpt)) 'face 'agent-q-dim)
            (and (agent-q-render-item-expanded line)
                 (concat "\n" (agent-q-render-body (agent-q-excerpt-text excerpt)
                                                   #'agent-q-visible 'face 'agent-q-dim))))))

(defun agent-q-excerpt-show (excerpt)
  "Add a line for EXCERPT to the log of this chat."
  (agent-q-render-add-item
   (agent-q-excerpt--make-line :draw #'agent-q-excerpt--draw :excerpt excerpt :apart t)))

(provide 'agent-q-excerpt)
;;; agent-q-excerpt.el ends here
