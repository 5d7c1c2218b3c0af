;;; agent-q-link.el --- Links in answers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Links in the text of a model are buttons: an address of the web opens in a
;; browser, a file of the project in Emacs.  Nothing else does anything, and
;; where one leads is shown before it is followed.

;;; Code:

(require 'agent-q-project)
(require 'agent-q-visible)
(require 'subr-x)

(defvar agent-q-link-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-link-follow)
    (define-key map [mouse-2] #'agent-q-link-follow-mouse)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on links in answers.")

(defun agent-q-link-put (start end target)
  "Make the text from START to END a link to TARGET."
  (add-text-properties
   start end
   (list 'agent-q-link target 'mouse-face 'highlight 'keymap agent-q-link-map
         'help-echo (agent-q-visible-line target))))

(defun agent-q-link--address-p (target)
  "Whether TARGET is an address that a browser may open."
  (let ((case-fold-search t))
    (string-match-p "\\`\\(?:https?://\\|mailto:\\)[^[:space:][:cntrl:]]+\\'" target)))

(defun agent-q-link--file (target)
  "Return the file of the project that TARGET names, and its line or nil, or nil."
  (when (string-match
         "\\`\\(?:file://\\)?\\(.+?\\)\\(?:\\(?::\\|#L\\)\\([0-9]+\\)\\(?::[0-9]+\\)?\\)?\\'"
         target)
    (let* ((line (match-string 2 target))
           (name (match-string 1 target))
           (root (and (not (file-remote-p name))
                      (not (string-prefix-p "~" name))
                      (agent-q-project-directory)))
           (file (and root (expand-file-name name root))))
      (when (and file
                 (not (file-remote-p file))
                 (file-regular-p file)
                 (file-in-directory-p (file-truename file) (file-truename root)))
        (cons file (and line (string-to-number line)))))))

(defun agent-q-link-go (file line)
  "Go to FILE in another window, to LINE unless that is nil."
  (find-file-other-window file)
  (when line
    (widen)
    (goto-char (point-min))
    (forward-line (1- line))))

(defun agent-q-link-follow ()
  "Follow the link at point."
  (interactive nil agent-q-chat-mode)
  (let ((target (or (get-text-property (point) 'agent-q-link)
                    (user-error "No link here"))))
    (if (agent-q-link--address-p target)
        (progn (message "Opening %s" (agent-q-visible-line target))
               (browse-url target))
      (pcase (agent-q-link--file target)
        (`(,file . ,line)
         (agent-q-link-go file line))
        (_ (user-error "Not followed: %s is neither an address of the web nor a file of the project"
                       (agent-q-visible-line target)))))))

(defun agent-q-link-follow-mouse (event)
  "Follow the link that EVENT clicked on."
  (interactive "e" agent-q-chat-mode)
  (mouse-set-point event)
  (agent-q-link-follow))

(provide 'agent-q-link)
;;; agent-q-link.el ends here
